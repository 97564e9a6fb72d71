"""The logic of a client, written once for threads and tasks.

`aio` has the methods, as coroutines, and `_blocking` runs them in threads; both are made of the base
classes here. The connection and the protocol are the transports'.
"""
