"""The values of the store: names, legal moves, requests, errors. Pure."""
