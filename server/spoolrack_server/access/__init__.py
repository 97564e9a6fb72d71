"""Who asks, and what he may do: identities, tokens and permissions, for both doors of the server."""
