"""The systems compared: a module for each, with its start and its client."""
