"""Redrives: dead letters go back to where they came from, in the background."""
