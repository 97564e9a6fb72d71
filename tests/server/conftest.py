"""A server and a client for each test, with a clock that only the test moves."""

from tests.support.server_rig import client, clock, server

__all__ = ["client", "clock", "server"]
