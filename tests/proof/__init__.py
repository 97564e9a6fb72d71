"""The proof of the main promise: power cuts in simulators and on real disks, planted bugs, the audit of
system calls, a second reader of the format. `make proof` runs all of it, `make test` a sample."""
