"""What the operations do to folders and index, each noun in its module. No threads."""
