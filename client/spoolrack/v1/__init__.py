"""The contract of protos/spoolrack/v1 as Python: written by scripts/generate-stubs, never by hand."""
