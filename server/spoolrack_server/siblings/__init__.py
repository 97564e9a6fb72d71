"""The worker processes of one server: what each asks the others, through their supervisor."""
