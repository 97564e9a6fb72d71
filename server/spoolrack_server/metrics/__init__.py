"""Metrics, history and traces of a server."""
