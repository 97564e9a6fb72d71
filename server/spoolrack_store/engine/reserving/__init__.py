"""Sets of leases under a name."""
