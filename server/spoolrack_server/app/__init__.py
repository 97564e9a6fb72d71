"""Use cases of callers on the queues of a root, once for all fronts.

A use case takes a `Caller` and plain values, requires permissions, checks bounds, asks the store and
returns the store's values. It raises `StoreError`. It knows no protocol. A front translates requests
and answers, and has no rule of its own about permissions.
"""
