"""The server as a process, and as several: start and stop, settings, signals, supervisor, workers."""
