"""KEDA's contract of external scalers, and the stubs that `make stubs` generates from it."""
