"""Hypothesis without a deadline: no test depends on the machine's speed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "spoolrack", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spoolrack")
