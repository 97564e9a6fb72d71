"""A real server on a real file system that loses its power, under load.

Owns the order of an outage: the cut, what may still live after it, the end of the server, a new mount
and a new start. Clients and their ledgers are outside of the mount and live on, as on other machines.
Knows nothing of what is inside the root: the clients' ledgers tell what was promised.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from re import fullmatch
from typing import Final

import grpc
import spoolrack
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.proof.power.forgetful_server import BUGS
from tests.proof.power.witness import Survey, Witness
from tests.support.delivery_checker import Verdict
from tests.support.load import QUEUE, VISIBILITY, Load
from tests.support.loop_disk import MEBIBYTE, LoopDisk
from tests.support.run_processes import SILENCE, Crew, Member, Served

SIZE: Final = {"ext4": 128 * MEBIBYTE, "xfs": 300 * MEBIBYTE}
OPTIONS: Final = {
    "ext4": ("", "data=writeback", "nodelalloc", "commit=1"),
    "xfs": ("", "logbsize=256k", "wsync"),
}
"""Mount options that change what a cut leaves. The promises hold under all of them."""
_STRETCHES: Final = 2
_LONGEST_STRETCH: Final = 0.25
"""Seconds of load with some of the clients standing still: a round has two stretches, then the cut."""
_LONGEST_RECOVERY: Final = 0.6
_UNWRITTEN: Final = r"'new/.*': its checksum differs|'published/[^/]*': no manifest: it isn't whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one run."""

    verdict: Verdict
    survey: Survey
    unwritten: Sequence[str]
    """The notes about sends and publications without an answer, and whose files have their length and
    not their content, as ext4 leaves them. Recovery can't tell them from rot, and puts them
    aside."""
    quarantined: Sequence[str]
    """The notes about all else in quarantine: nothing is damaged or foreign, so there may be none."""
    inspection: str
    """The output of `spoolrack fsck` at the end; empty if it found nothing."""

    @property
    def broken(self) -> list[str]:
        """Every broken promise, in words."""
        found = [str(self.verdict)] if self.verdict.faults else []
        if self.quarantined:
            found.append(f"{len(self.quarantined)} quarantined, such as {self.quarantined[0]}")
        if self.inspection:
            found.append(f"fsck: {self.inspection}")
        if not self.survey.lost:
            found.append(f"no power was lost: all {self.survey.written} witnesses came through")
        return found


class Outages:
    """A disk, a server on it, senders and consumers. A context manager: at its end all is gone."""

    def __init__(
        self, kind: str, folder: Path, random: Random, *, options: str = "", bug: str | None = None
    ) -> None:
        """Prepare a run; `bug` names a planted server's fault, see `forgetful_server`."""
        self.survey = Survey()
        self._random = random
        self._frozen: list[Member] = []
        self._disk = LoopDisk(kind, folder / "disk", size=SIZE[kind], options=options)
        self._crew = Crew(folder)
        self._witness: Witness | None = None
        try:
            self._served = Served(self._crew, self._disk.mount_point / "root")
            if bug is not None:
                self._replace_server(bug)
            self._load = Load(self._crew, self._served, random, in_sets=True)
            self._witness = self._new_witness()
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Outages:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self._crew.end()
        if self._witness is not None:
            self._witness.end()
        self._disk.close()

    def _replace_server(self, bug: str) -> None:
        """Go on with the planted server, in a root with a queue: only messages are at stake."""
        assert bug in BUGS
        with spoolrack.connect(self._served.address) as client:
            client.create_queue(QUEUE, visibility_timeout=VISIBILITY)
        self._served.stop()
        self._served.program = ("tests.proof.power.forgetful_server", bug)
        self._served.restart()

    def _new_witness(self) -> Witness:
        folder = self._disk.mount_point / f"witness-{self.survey.cuts}"
        return Witness(folder, Random(self._random.random()))

    # A round.

    def advance(self) -> None:
        """Let all go on until something was sent and deleted, and then some, up to a random moment.

        So there are cuts while only deletes, or only sends, wait for a sync, and with any backlog.
        """
        self._load.advance(0.0, 0.0)
        clients = [role.member for role in (*self._load.senders, *self._load.consumers)]
        for _ in range(_STRETCHES):
            self._thaw()
            for member in self._random.sample(clients, self._random.randrange(len(clients))):
                self._crew.freeze(member)
                self._frozen.append(member)
            self._pass(self._random.uniform(0.0, _LONGEST_STRETCH))

    def _thaw(self) -> None:
        while self._frozen:
            self._crew.thaw(self._frozen.pop())

    def cut(self) -> None:
        """Cut the power under the load, and return when the server serves again."""
        self._disk.cut_power()
        self._come_back()

    def cut_and_live_on(self) -> str:
        """Cut the power, and let the server find out: it must say so, and acknowledge nothing.

        Returns the reason that it gave. The clients' acknowledgements are judged with
        the rest.
        """
        self._disk.cut_power()
        self._thaw()
        await_not_serving(self._served)
        impatient = spoolrack.RetryPolicy(attempts=1)
        with spoolrack.connect(self._served.address, retry=impatient) as client:
            try:
                client.queue(QUEUE).send(b"to a dead disk")
            except spoolrack.SpoolrackError as error:
                reason = error.reason
            else:
                raise AssertionError("a server on a dead disk has acknowledged a message")
        self._pass(self._random.uniform(0.0, _LONGEST_STRETCH))
        self._come_back()
        return reason

    def cut_in_recovery(self) -> None:
        """Cut the power, and once more while the next server recovers or has just begun to serve."""
        self._disk.cut_power()
        self._mount_again()
        self._served.begin_restart()
        # It may find the disk dead before it serves, and end by itself.
        self._served.member.wanted_dead = True
        self._pass(self._random.uniform(0.0, _LONGEST_RECOVERY))
        self._disk.cut_power()
        self._come_back()

    def _come_back(self) -> None:
        self._mount_again()
        self._served.restart()
        self._thaw()

    def _mount_again(self) -> None:
        """End the server, which may have died of the dead disk, and mount what is left."""
        self._crew.bury(self._served.member)
        assert self._witness is not None
        self._witness.end()
        self._disk.unmount()
        self._disk.mount()
        self.survey.add(self._witness.survey())
        self._witness = self._new_witness()

    def _pass(self, seconds: float) -> None:
        for _ in self._crew.told(time.monotonic() + seconds):
            pass

    # The end.

    def finish(self) -> Report:
        """Send no more, receive what is there, and judge."""
        verdict = self._load.finish()
        quarantine = self._served.root / "quarantine"
        notes = [note.read_text().strip() for note in sorted(quarantine.glob("*/*.why"))]
        # One that was acknowledged all the same is missing, and so among the lost.
        unwritten = [note for note in notes if fullmatch(_UNWRITTEN, note)]
        return Report(
            verdict=verdict,
            survey=self.survey,
            unwritten=unwritten,
            quarantined=[note for note in notes if note not in unwritten],
            inspection=self._inspect(),
        )

    def _inspect(self) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "spoolrack_server", "fsck", "--data", str(self._served.root)],
            capture_output=True,
            text=True,
            check=False,
            timeout=SILENCE,
        )
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()


def await_not_serving(served: Served) -> None:
    """Return once the server's health says that it serves no more."""
    with grpc.insecure_channel(served.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for answer in health.Watch(health_pb2.HealthCheckRequest(), timeout=SILENCE):
            if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                return
    raise AssertionError("a server on a dead disk says that it serves")


def run(
    kind: str, folder: Path, seed: int, *, cuts: int, options: str | None = None, bug: str | None = None
) -> Report:
    """Run once with so many cuts of all manners; mount options at random if None are given."""
    random = Random(seed)
    if options is None:
        options = random.choice(OPTIONS[kind])
    with Outages(kind, folder, random, options=options, bug=bug) as outages:
        # Once, because clients then wait for seconds, as such a server asks them to.
        will_live_on = bug is None
        while (left := cuts - outages.survey.cuts) > 0:
            outages.advance()
            if will_live_on and random.randrange(left) == 0:
                outages.cut_and_live_on()
                will_live_on = False
            elif left > 1 and random.random() < 0.2:
                outages.cut_in_recovery()
            else:
                outages.cut()
        return outages.finish()
