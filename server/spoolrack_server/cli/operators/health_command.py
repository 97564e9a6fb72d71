"""`spoolrack health`: probes a server's health listener without an HTTP client.

That is a container's own check: an image needs no shell and no curl for it. It reads the listener's
address from the variable that `serve --health` reads, and knows nothing of queues, TLS or tokens.
"""

from __future__ import annotations

import http.client
import json
from typing import Any, Final

import click

from ..kit.command_base import argument, option, shared_option
from ..kit.exit_codes import NOTHING, OK, UNAVAILABLE, Failed
from ..kit.output import print_results, print_status
from ..kit.units import Address, Span

_LONGEST: Final = 65_536
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to ask a server that listens at all addresses."""


@click.command()
@argument("which", type=click.Choice(["ready", "live"]), default="ready")
@shared_option(
    "--health",
    type=Address(),
    default="127.0.0.1:8081",
    help="Address of the server's `serve --health`.",
)
@option("--timeout", type=Span(0.001), default="3s", help="Time for an answer.")
@option("--json", "as_json", is_flag=True, help="Print the server's answer, a line of JSON.")
def command(which: str, health: tuple[str, int], timeout: float, as_json: bool) -> int:
    """Check whether a server is ready, or live. Exits with 1 if it isn't, with 69 without an answer."""
    host, port = _EVERYWHERE.get(health[0], health[0]), health[1]
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", f"/-/health/{which}")
        answer = connection.getresponse()
        said = answer.read(_LONGEST)
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise Failed(
            f"no server answers at {host}:{port}: {why}. Is it served with --health?", UNAVAILABLE
        ) from error
    finally:
        connection.close()
    if as_json:
        print_results(json.dumps(_answer(said)))
    if answer.status == http.client.OK:
        return OK
    print_status(f"the server at {host}:{port} is not {which}: {_reason(answer.status, said)}")
    return NOTHING


def _reason(status: int, said: bytes) -> str:
    """Why not: as the server says it, if it does."""
    why = _answer(said).get("why")
    return why if isinstance(why, str) else f"it answers {status}"


def _answer(said: bytes) -> dict[str, Any]:
    """Return the JSON of an answer; empty if it has none."""
    try:
        body = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
