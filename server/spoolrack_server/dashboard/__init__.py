"""The dashboard at `/-/dashboard`: its files, and the JSON under `/-/api/` that it lives on."""
