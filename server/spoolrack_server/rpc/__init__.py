"""gRPC: the handlers of the contract's methods, of KEDA's scaler, of health and of reflection.

`calls` is the plumbing of every call; a handler translates requests and responses.
"""
