"""What others may know of a server: figures, whether it serves, which call it was, and whose trace."""
