"""The surroundings of the process, for all other packages: log, addresses, limits, memory limit.

It imports none of them.
"""
