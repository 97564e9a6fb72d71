"""The dashboard at `/-/dashboard`: its files, and its JSON under `/-/api/`."""
