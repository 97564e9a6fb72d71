"""The services of gRPC over an open store, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spoolrack_server.app.application import Application
from spoolrack_server.rpc.services import Services
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.clock import Clock
from spoolrack_store.store import Store


def served(store: Store, clock: Clock) -> tuple[Application, Mapping[str, Any]]:
    """Return the use cases, and the handlers by the names of their methods."""
    app = Application(store, clock, make_log())
    services = Services(app, clock)
    return app, {name: method.run for name, method in services.methods().items()}
