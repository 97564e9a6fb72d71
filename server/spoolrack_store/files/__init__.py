"""The disk: the only callers of the operating system, and the durability barrier."""
