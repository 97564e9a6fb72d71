"""The disk, the only callers of the operating system, and the knowledge of what is durable."""
