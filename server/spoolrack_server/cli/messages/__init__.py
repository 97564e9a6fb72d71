"""Commands on messages, stages and reservations, and what reads and writes them."""
