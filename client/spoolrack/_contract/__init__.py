"""The part of the contract that client and server share beside the generated stubs of `v1`."""
