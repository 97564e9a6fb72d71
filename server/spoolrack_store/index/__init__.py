"""What waits, in memory and in order, rebuilt from names at each start. Pure."""
