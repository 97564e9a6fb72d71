"""What client and server share of the contract beside the generated stubs of `v1`."""
