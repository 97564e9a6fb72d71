"""Import and export: messages between queues and other stores: archives, and the ancestors' folders.

The commands `import` and `export` are made of it. It knows queues by the client's surface alone, so
that it works with a server and without one.
"""
