"""A transport of kombu, and so a broker of Celery: `spoolrack://host:port`. Needs the extra `celery`.

A virtual transport: exchanges and bindings are the client's business, queues are Spoolrack's. Consumers
are streams, so that nothing polls; a publication to several queues is one atomic batch.

Celery knows the scheme by itself; a program that uses kombu alone imports this package first.
"""

import kombu_spoolrack as _scheme  # noqa: F401  # enters it

from ._transport import Transport

__all__ = ["Transport"]
