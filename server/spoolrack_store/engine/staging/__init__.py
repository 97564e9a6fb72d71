"""Stages, and their publication at one commit point."""
