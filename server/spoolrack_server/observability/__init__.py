"""Observability of a server: metrics, health, request ids and traces."""
