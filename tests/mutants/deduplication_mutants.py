"""Planted bugs: a deduplication id that is stored twice, or refused though nothing is stored."""

from __future__ import annotations

from typing import Final

from mutant import Mutant, edit

_ANSWERS: Final = ("tests/store/test_store_deduplication.py",)
_DISK: Final = ("tests/store/test_store_deduplication_disk.py",)
_PEERS: Final = ("tests/store/test_store_deduplication_peers.py",)
_EVERY: Final = (
    "tests/crash/test_every_crash.py::test_no_operation_breaks_a_promise_wherever_the_process_dies",
)
_SHARED: Final = ("tests/crash/test_shared_crashes.py",)
_KNOWN: Final = ("tests/crash/test_shared_known.py",)

DEDUPLICATION_MUTANTS: Final = (
    Mutant(
        name="a-segment-is-not-synced-before-the-unlink",
        breaks="a key is durable elsewhere before the name that carries it goes",
        edits=edit(
            "engine/reaper.py",
            "self._segments.write(lines, sync=True)",
            "self._segments.write(lines, sync=False)",
        ),
        caught_by=_EVERY,
    ),
    Mutant(
        name="a-new-segments-name-is-not-synced",
        breaks="a key is durable elsewhere before the name that carries it goes",
        edits=edit("files/segments.py", "            disk.sync_folder(layout.KEYS)\n", ""),
        caught_by=_EVERY,
    ),
    Mutant(
        name="the-reaper-unlinks-first",
        breaks="a key is durable elsewhere before the name that carries it goes",
        edits=edit(
            "engine/reaper.py",
            "            inside = self._disk.scan(path)\n",
            "            inside = self._disk.scan(path)\n"
            "            for found in inside:\n"
            '                self._unlink(f"{path}/{found.name}")\n',
        ),
        caught_by=_DISK,
    ),
    Mutant(
        name="a-failed-send-keeps-its-id",
        breaks="a send that was answered with an error takes no deduplication id",
        edits=edit(
            "engine/sender.py",
            "        pending.key = key\n        return False\n",
            "        pending.key = key\n"
            "        self.deduplication.take(live.name, [(key, self._root.ids.make())])\n"
            "        return False\n",
        ),
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a-start-forgets-the-ids-in-remove",
        breaks="the id of a deleted message is refused after a restart, too",
        edits=edit(
            "engine/deduplicating/census.py",
            "    for queue, name in removed:\n        known.learn_name(queue, name)\n",
            "",
        ),
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a-start-forgets-the-segments",
        breaks="the id of an unlinked message is refused after a restart, too",
        edits=edit(
            "engine/deduplicating/census.py",
            "                if not line.is_news:\n",
            "                if line.is_news:\n",
        ),
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="what-was-never-sent-holds-its-id",
        breaks="nobody is told that a message is a repetition of one that was never stored",
        edits=edit(
            "engine/heir.py",
            "layout.removed(filed.queue, unsent(filed.item))",
            "layout.removed(filed.queue, filed.item)",
        ),
        caught_by=_DISK,
    ),
    Mutant(
        name="a-torn-segment-is-appended-to",
        breaks="a torn line costs itself only",
        edits=edit(
            "files/segments.py",
            "                self._end()\n                raise\n",
            "                raise\n",
        ),
        caught_by=_DISK,
    ),
    Mutant(
        name="a-torn-line-is-believed",
        breaks="a line that isn't whole says nothing",
        edits=edit("model/keys.py", '{{25}})\\n".encode()', '{{25}})$".encode()'),
        caught_by=_DISK,
    ),
    Mutant(
        name="a-queue-made-again-has-the-old-salt",
        breaks="a queue that is made again remembers no id of the former one",
        edits=edit("engine/versions.py", "make_token(self._root.random)", '""'),
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="a-window-never-ends",
        breaks="an id may be sent again when its window is over",
        edits=edit(
            "engine/deduplicating/known_keys.py",
            "self._root.clock.wall() - live.settings.deduplication_window + 1",
            "0 * live.settings.deduplication_window",
        ),
        caught_by=_ANSWERS,
    ),
    Mutant(
        name="peers-do-not-look",
        breaks="an id that another process has stored is refused",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "        if is_contended or self._has_company or not self._is_complete:\n",
            "        if not self._is_complete:\n",
        ),
        caught_by=(*_PEERS, *_SHARED),
    ),
    Mutant(
        name="peers-do-not-look-at-new",
        breaks="what a dead process has written whole is refused to be stored again",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "        if arriving is None or id_number(arriving.name) <",
            "        if arriving is not None or id_number(arriving.name) <",
        ),
        caught_by=_PEERS,
    ),
    Mutant(
        name="what-a-peer-wrote-is-believed-to-be-durable",
        breaks="a repetition is refused only once the first message is on stable media",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "                self._root.everything_changed()\n",
            "                pass\n",
        ),
        caught_by=(*_PEERS, *_SHARED),
    ),
    Mutant(
        name="news-outlive-a-power-cut",
        breaks="news of messages that a power cut took are believed by nobody",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "                self._read_up_to[path] = self._segments.read(path)[1]\n",
            "                self._read_up_to[path] = 0\n",
        ),
        caught_by=_PEERS,
    ),
    Mutant(
        name="an-id-is-believed-whose-message-nobody-could-write",
        breaks="a repetition is answered only for a message that is there whole",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "        elif self._is_torn(live, key, first):\n            first = None\n",
            "",
        ),
        caught_by=_KNOWN,
    ),
    Mutant(
        name="an-id-that-was-stored-anew-is-stored-once-more",
        breaks="a deduplication id is stored once, whatever lies in new/ of a send that failed",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "        if arriving is None or id_number(arriving.name) != id:\n",
            "        if arriving is None:\n",
        ),
        caught_by=_KNOWN,
    ),
    Mutant(
        name="a-repetition-believes-what-memory-shows",
        breaks="a repetition is answered only for a message that is there whole",
        edits=edit(
            "engine/deduplicating/deduplication.py",
            "            read_message(disk, path, item, afresh=True)\n",
            "            read_message(disk, path, item)\n",
        ),
        caught_by=_KNOWN,
    ),
)
