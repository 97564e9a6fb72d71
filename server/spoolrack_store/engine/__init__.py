"""The engine: the operations on folders and index, each noun in its module. No threads."""
