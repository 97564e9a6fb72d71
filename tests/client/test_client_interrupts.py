"""Ctrl-C at each instruction of a call at which CPython runs the handlers of signals."""

from __future__ import annotations

import subprocess
import sys

import pytest
from spoolrack.testing import running_server

from tests.client.test_client_processes import ENVIRONMENT
from tests.support import STUCK

pytestmark = pytest.mark.timeout(300)  # It interrupts each step of a call.

INTERRUPT = """
import faulthandler, sys, threading

class Interrupt:
    '''Ctrl-C at the n-th such instruction: where a function begins, or one of C has returned.'''
    def __init__(self, n):
        self.left = n

    def __call__(self, frame, event, argument):
        if event in ("call", "c_return"):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
"""
PROGRAM = f"""{INTERRUPT}
import spoolrack, spoolrack._core.stream
from spoolrack._transports import grpc_calls, grpc_streams

url, call, before = sys.argv[1:4]
stuck = float(sys.argv[4])
faulthandler.dump_traceback_later(stuck, exit=True)
# A close that has to give something up never ends here.
spoolrack._core.stream.CLOSE_TIMEOUT = grpc_calls.CLOSE = grpc_streams.JOIN_TIMEOUT = 2 * stuck

def first_message():
    with queue.messages() as stream:
        for message in stream:
            with message:
                return

setup = spoolrack.connect(url)
setup.create_queue("jobs")
interrupts = 0
while True:
    exec(before, {{"queue": setup.queue("jobs")}})
    client = spoolrack.connect(url)
    queue = client.queue("jobs")
    interrupt = Interrupt(interrupts)
    sys.setprofile(interrupt)
    try:
        exec(call)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    infos = []
    other = threading.Thread(target=lambda: infos.append(queue.info(timeout=stuck)))
    other.start()
    other.join()
    assert infos, interrupts
    client.close()
    if interrupt.left >= 0:
        break
    interrupts += 1
print(interrupts)
"""


@pytest.mark.parametrize(
    ("call", "before"),
    [
        pytest.param("queue.info()", "", id="unary"),
        pytest.param("queue.send('a')", "", id="stream of sends"),
        pytest.param("first_message()", "queue.send('a')", id="messages", marks=pytest.mark.slow),
        pytest.param(
            "list(client.reservations.read('some', 1))",
            "queue.send('a'); queue.reserve('some', 1)",
            id="read",
        ),
    ],
)
def test_a_client_goes_on_and_is_closed_after_ctrl_c_at_any_moment_of_a_call(
    call: str, before: str
) -> None:
    with running_server() as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, server.url, call, before, str(STUCK)],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=2 * STUCK,
        )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


OBJECT = f"""{INTERRUPT}
from types import SimpleNamespace

make, call, after = sys.argv[1:4]
stuck = float(sys.argv[4])
faulthandler.dump_traceback_later(stuck, exit=True)
interrupts = 0
while True:
    names = {{}}
    exec(make, names)
    interrupt = Interrupt(interrupts)
    sys.setprofile(interrupt)
    try:
        exec(call, names)
    except (KeyboardInterrupt, TimeoutError):
        pass
    finally:
        sys.setprofile(None)
    other = threading.Thread(target=lambda: exec(after, names))
    other.start()
    other.join()
    if interrupt.left >= 0:
        break
    interrupts += 1
print(interrupts)
"""
TRANSPORT = """
from types import SimpleNamespace
from spoolrack.kombu._transport import Transport
transport = Transport(SimpleNamespace(transport_options={}))
"""
EXTENDER = """
from types import SimpleNamespace
from spoolrack.spark._reservation_extender import ReservationExtender
extender = ReservationExtender(60)
offset = SimpleNamespace(gen="some", root="", sequence_number=1)
caller = SimpleNamespace(to=lambda root: caller, once=lambda *given, **named: None)
"""


@pytest.mark.parametrize(
    ("make", "call", "after"),
    [
        pytest.param(
            TRANSPORT,
            "transport.drain_events(None, timeout=0.001)",
            "transport.wake()",
            id="kombu waits for a message",
        ),
        pytest.param(
            EXTENDER,
            "extender.keep(offset, caller)",
            "extender.keep(offset, caller); extender.drop(offset); extender.stop()",
            id="a query of Spark keeps a reservation",
        ),
        pytest.param(
            EXTENDER + "extender.keep(offset, caller)",
            "extender.stop()",
            "extender.keep(offset, caller); extender.stop()",
            id="a query of Spark stops",
        ),
    ],
)
def test_other_threads_go_on_after_ctrl_c_at_any_moment(make: str, call: str, after: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OBJECT, make, call, after, str(STUCK)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=2 * STUCK,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
