"""A transport of kombu, and so a broker of Celery: `spoolrack://host:port`. Needs the extra `celery`.

A virtual transport: exchanges and bindings are the client's business, queues are Spoolrack's. Consumers
are streams, so that nothing polls; a publication to several queues is one atomic batch.

Celery knows the scheme by itself; a program that uses kombu alone imports this package first.
"""

import os

import kombu_spoolrack as _scheme  # noqa: F401  # enters it

# Before gRPC is imported. A worker of Celery forks new children beside a receiving stream, and with
# gRPC's default, epoll1, some of those abort in `ev_epoll1_linux.cc` once they send.
os.environ.setdefault("GRPC_POLL_STRATEGY", "poll")

from ._transport import Transport

__all__ = ["Transport"]
