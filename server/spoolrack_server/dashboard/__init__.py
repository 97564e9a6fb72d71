"""The dashboard at `/-/dashboard`: its files, which ask HTTP as a program does."""
