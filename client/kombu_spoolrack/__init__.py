"""The URL scheme `spoolrack://` of kombu, and so of Celery.

kombu resolves a scheme by a table of its own and has no entry point for transports. It loads the entry
points of `kombu.serializers` when it is imported: this package is one, enters the scheme, and registers
no serializer. It imports nothing of the client, so that an import of kombu costs no more than before.
"""

from __future__ import annotations

from typing import Final

from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES["spoolrack"] = "spoolrack.kombu:Transport"

NO_SERIALIZER: Final = (None, None, "application/x-spoolrack-none")
"""Encoder, decoder and content type, as `kombu.serialization.register` takes them: none."""
