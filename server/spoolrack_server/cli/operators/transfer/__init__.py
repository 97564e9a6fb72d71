"""Import and export of queues: archives, and the folders of vsqs and softlayer/mq.

The commands `import` and `export` are made of it. It knows queues by the client's surface alone, so
that it works with a server and without one.
"""
