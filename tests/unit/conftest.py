"""Hypothesis without a deadline: no test depends on the machine's speed."""

from hypothesis import settings

settings.register_profile("spoolrack", deadline=None, print_blob=True)
settings.load_profile("spoolrack")
