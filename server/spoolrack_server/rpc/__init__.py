"""gRPC: the servicers of the contract's services, of KEDA's scaler, of health and of reflection.

`calls` is the plumbing of every call; a servicer translates requests and responses.
"""
