"""Metrics, error log, history and traces of a server."""
