"""Which deduplication ids are taken."""
