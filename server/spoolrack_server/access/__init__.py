"""Authentication and authorization for gRPC and HTTP: identities, tokens and permissions."""
