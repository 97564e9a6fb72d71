"""Tokens, rules and certificates as files: their format, their modes, and mistakes in them."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import threading
import time
from pathlib import Path

import pytest
import trustme
from spoolrack_server.access.file_format import UnreadableAccessFile
from spoolrack_server.access.permissions_file import Rules
from spoolrack_server.access.security import STALE, Insecure, Security, is_loopback
from spoolrack_server.access.tls import Tls, TlsFiles
from spoolrack_server.access.tokens import Tokens, line_of, new_token
from spoolrack_server.access.watched_files import SECRET, AccessUnusable, WatchedFiles
from spoolrack_server.app.caller import Identity, Permission
from spoolrack_server.system.logs import make_log
from spoolrack_store.model.errors import Unauthenticated

from tests.support import STUCK
from tests.support.access_rig import Files

ALICE, BOB = Identity("alice"), Identity("spiffe://example.org/bob")
SEND, RECEIVE, MANAGE, MONITOR = Permission


def test_a_token_is_known_by_its_hash_and_no_other_is() -> None:
    tokens = {identity.name: new_token() for identity in (ALICE, BOB)}
    found = Tokens.parsed("".join(f"{line_of(name, token)}\n" for name, token in tokens.items()))
    assert len(found) == 2
    for identity in (ALICE, BOB):
        token = tokens[identity.name]
        assert found.identity_of(token) == identity
        for other in (token[:-1], token + "x", token.upper(), token.swapcase(), ""):
            assert found.identity_of(other) is None
    assert found.identity_of("é" * 5_000) is None


def test_a_token_has_256_bits_and_its_line_holds_none_of_them() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    for token in made:
        assert len(token) == len("srk_") + 43  # 256 bits in base64
        assert token[4:] not in line_of("alice", token)


def test_two_tokens_of_one_identity_are_good_side_by_side() -> None:
    old, new = new_token(), new_token()
    found = Tokens.parsed(f"{line_of('alice', old)}\n{line_of('alice', new)} # since May\n")
    assert found.identity_of(old) == found.identity_of(new) == ALICE


def test_an_unknown_token_has_no_identity() -> None:
    token = new_token()
    found = Tokens.parsed(line_of("alice", token))
    assert found.identity_of(token) == ALICE
    for unknown in ("", token[:-1], token + "x", line_of("alice", token).split()[1], "\ud800"):
        assert found.identity_of(unknown) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "line 1: has not two words: an identity, and sha256:<64 hex digits>"),
        ("alice sha256:00", "line 1: the second word is not"),
        (f"\n# x\nalice {'0' * 64}", "line 3: the second word is not"),
        (f"al*ce sha256:{'0' * 64}", "can't be the name of an identity"),
        (f"a sha256:{'0' * 64}\nb sha256:{'0' * 64}", "line 2: repeats the token of another line"),
    ],
)
def test_a_damaged_list_of_tokens_is_refused_as_a_whole(text: str, why: str) -> None:
    with pytest.raises(UnreadableAccessFile) as caught:
        Tokens.parsed(text)
    assert why in str(caught.value)


def test_a_token_in_clear_in_the_file_is_not_repeated_in_the_error() -> None:
    token = new_token()
    with pytest.raises(UnreadableAccessFile) as caught:
        Tokens.parsed(f"alice {token}")
    assert token not in str(caught.value)


def test_rules_allow_what_they_say_and_nothing_else() -> None:
    rules = Rules.parsed(
        """
        # who  what          where
        alice  send,monitor  jobs mail-*
        alice  receive       jobs
        *      monitor       public-?
        spiffe://example.org/bob all *
        """
    )
    allowed = {
        (permission, queue)
        for permission in Permission
        for queue in ("jobs", "mail-1", "mail-", "mail", "public-1", "public-12", "other", "*")
        if rules.allows(ALICE, permission, queue)
    }
    assert allowed == {
        (SEND, "jobs"),
        (MONITOR, "jobs"),
        (RECEIVE, "jobs"),
        *((permission, queue) for permission in (SEND, MONITOR) for queue in ("mail-1", "mail-")),
        (MONITOR, "public-1"),
    }
    assert all(rules.allows(BOB, permission, queue) for permission in Permission for queue in "*q")
    assert not rules.allows(Identity("carol"), SEND, "jobs")
    assert rules.allows_somewhere(ALICE, RECEIVE)
    assert not rules.allows_somewhere(ALICE, MANAGE)
    assert rules.allows_somewhere(Identity("carol"), MONITOR)


def test_a_pattern_of_many_stars_costs_no_time() -> None:
    rules = Rules.parsed(f"* send {'*a' * 39}b")
    begun = time.process_time()
    assert not rules.allows(ALICE, SEND, "a" * 80)
    assert time.process_time() - begun < 5  # Backtracking takes years.


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice send", "line 1: has not three words"),
        ("alice juggle q", "'juggle' is no permission: there are send, receive, manage, monitor, all"),
        ("alice send, q", "'' is no permission"),
        ("alice send a/b", "'a/b' can't be a pattern"),
        ("al[i]ce send q", "can't be the name of an identity"),
    ],
)
def test_damaged_rules_are_refused_as_a_whole(text: str, why: str) -> None:
    with pytest.raises(UnreadableAccessFile) as caught:
        Rules.parsed(text)
    assert why in str(caught.value)


def watched(path: str, stream: io.StringIO) -> WatchedFiles[str]:
    return WatchedFiles(
        "list", [(path, SECRET)], lambda contents: _good(contents[0]), make_log(stream=stream)
    )


def _good(content: bytes) -> str:
    text = content.decode()
    if "bad" in text:
        raise UnreadableAccessFile(1, "is bad")
    return text


def test_a_file_is_read_again_when_it_changes_and_a_slip_changes_nothing(files: Files) -> None:
    stream = io.StringIO()
    path = files.write("list", "one")
    seen = watched(path, stream)
    assert not seen.reload()
    files.write("list", "two")
    assert seen.reload()
    assert seen.current == "two"
    for slip in (lambda: files.write("list", "bad"), lambda: files.write("list", b"\xff")):
        slip()
        assert not seen.reload()
        assert not seen.reload(), "it is said once"
        assert seen.current == "two"
    files.write("list", "open", mode=0o604)
    assert not seen.reload()
    Path(path).unlink()
    assert not seen.reload()
    assert seen.current == "two"
    files.write("list", "three")
    assert seen.reload()
    assert seen.current == "three"
    said = [line for line in stream.getvalue().splitlines() if "level=error" in line]
    assert [why for why in ("is bad", "no text", "chmod 0600", "No such file") if why in str(said)] == [
        "is bad",
        "no text",
        "chmod 0600",
        "No such file",
    ]
    assert len(said) == 4


def test_a_version_that_was_read_at_a_bad_moment_is_read_later(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else a token that was revoked then would be valid until the next change."""
    stream, now = io.StringIO(), 0.0
    path = files.write("list", "one")
    seen = WatchedFiles(
        "list",
        [(path, SECRET)],
        lambda contents: contents[0].decode(),
        make_log(stream=stream),
        now=lambda: now,
    )
    opened = os.open
    for error in (
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.EIO, "I/O"),
        MemoryError(),
    ):

        def refuse(*arguments: object, error: Exception = error) -> int:
            raise error

        files.write("list", f"after {error!r}")
        monkeypatch.setattr(os, "open", refuse)
        for _ in range(3):
            now += 1
            assert not seen.reload()
        assert seen.age == 3
        monkeypatch.setattr(os, "open", opened)
        assert seen.reload(), "although the file hasn't changed since"
        assert (seen.current, seen.age) == (f"after {error!r}", 0)
    told = [line for line in stream.getvalue().splitlines() if "level=error" in line]
    assert len(told) == 3, "each cause once"


def test_a_fifo_is_refused_and_stops_no_later_reload(files: Files) -> None:
    stream = io.StringIO()
    path = files.write("list", "one")
    seen = watched(path, stream)
    Path(path).unlink()
    os.mkfifo(path, 0o600)
    assert not seen.reload()
    assert "is no regular file" in stream.getvalue()
    Path(path).unlink()
    files.write("list", "two")
    assert seen.reload()
    Path(path).unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(AccessUnusable, match="is no regular file"):
        watched(path, stream)


@pytest.mark.parametrize("empty", ["", "# all tokens are in another file\n", "\n \n"])
def test_a_version_without_entries_is_refused_where_the_old_one_has_some(
    files: Files, empty: str
) -> None:
    """`: > tokens`, or a script that was interrupted: it must not shut all callers out."""
    stream = io.StringIO()
    tokens, rules = files.write_tokens("alice"), files.write_permissions("alice all *")
    loaded = Security(tokens=tokens, permissions=rules).load(make_log(stream=stream))
    control, header = loaded.access_control, f"Bearer {files.tokens['alice']}"
    for path in (tokens, rules):
        before = Path(path).read_text()
        Path(path).write_text(empty)
        assert not loaded.reload()
        alice = control.caller(header, None)
        assert alice.may(Permission.SEND, "q")
        assert "it has no entries, and the old one has" in stream.getvalue()
        Path(path).write_text(before)
        loaded.reload()
    # What revokes all: an entry that no client has.
    Path(tokens).write_text(line_of("nobody", new_token()))
    assert loaded.reload()
    with pytest.raises(Unauthenticated):
        control.caller(header, None)


async def test_a_look_that_hangs_is_told_and_holds_up_no_end_of_the_process(files: Files) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    loaded = security.load(make_log(stream=io.StringIO()))
    hangs, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def reload() -> bool:
        loop.call_soon_threadsafe(hangs.set)
        return goes_on.wait(STUCK)

    loaded.reload = reload  # type: ignore[method-assign]
    looking = asyncio.create_task(loaded.look())
    await hangs.wait()
    loaded._watched[0]._seen -= STALE
    assert loaded.stale == ["tokens"]
    (thread,) = (each for each in threading.enumerate() if each.name == "spoolrack-access")
    assert thread.daemon
    looking.cancel()
    await asyncio.wait([looking])
    goes_on.set()
    thread.join()


def test_files_that_are_not_taken_over_are_stale_after_a_while(files: Files) -> None:
    path = files.write_tokens("alice")
    loaded = Security(tokens=path).load(make_log(stream=io.StringIO()))
    (tokens,) = loaded._watched
    assert loaded.stale == []
    Path(path).write_text("damaged")
    loaded.reload()
    assert loaded.stale == [], "a script may write it once more"
    tokens._seen -= STALE
    assert (loaded.stale, list(loaded.ages)) == (["tokens"], ["tokens"])
    Path(path).write_text(line_of("bob", new_token()))
    loaded.reload()
    assert loaded.stale == []


def test_a_secret_of_kubernetes_is_seen_to_change(files: Files) -> None:
    """It is a link to a link to a folder, of which the second one is exchanged."""
    for version in ("1", "2"):
        (files.folder / version).mkdir()
        (files.folder / version / "list").write_text(version)
        (files.folder / version / "list").chmod(0o640)
    current = files.folder / "..data"
    current.symlink_to("1")
    (files.folder / "list").symlink_to("..data/list")
    seen = watched(str(files.folder / "list"), io.StringIO())
    fresh = files.folder / "..new"
    fresh.symlink_to("2")
    fresh.rename(current)
    assert seen.reload()
    assert seen.current == "2"


@pytest.mark.parametrize(
    ("mode", "verb"), [(0o604, "read"), (0o602, "change"), (0o620, "change"), (0o666, "change")]
)
def test_a_file_of_tokens_that_others_may_touch_is_refused(files: Files, mode: int, verb: str) -> None:
    path = files.write_tokens("alice")
    Path(path).chmod(mode)
    with pytest.raises(
        AccessUnusable,
        match=f"^the tokens {path} can't be used: .* others may {verb} it: chmod 06[04]0",
    ):
        Security(tokens=path).load(make_log(stream=io.StringIO()))


def test_permission_rules_are_read_by_all_and_changed_by_none(files: Files) -> None:
    tokens, rules = files.write_tokens("alice"), files.write_permissions("* all *")
    security = Security(tokens=tokens, permissions=rules)
    Path(rules).chmod(0o644)
    security.load(make_log(stream=io.StringIO()))
    Path(rules).chmod(0o664)
    with pytest.raises(
        AccessUnusable,
        match=f"^the permissions {rules} can't be used: .* others may change it: chmod 0644",
    ):
        security.load(make_log(stream=io.StringIO()))


def test_permissions_without_authentication_are_refused(files: Files) -> None:
    security = Security(permissions=files.write_permissions("* all *"))
    with pytest.raises(
        AccessUnusable, match=r"^the permissions .* can't be used: no caller can show an identity"
    ):
        security.load(make_log(stream=io.StringIO()))


def test_a_certificate_with_the_key_of_another_is_refused(
    files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    good = files.write_certificate(ca)
    log = make_log(stream=io.StringIO())
    Tls(good, log)
    mixed = TlsFiles(certificate=files.write_ca(other_ca), key=good.key)
    with pytest.raises(AccessUnusable, match="are no pair"):
        Tls(mixed, log)
    with pytest.raises(AccessUnusable, match="CA is no certificate"):
        Tls(TlsFiles(certificate=good.certificate, key=good.key, client_ca=good.key), log)
    Path(good.key).chmod(0o644)
    with pytest.raises(AccessUnusable, match="others may read it: chmod 0640"):
        Tls(good, log)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_only_the_loopback_is_served_without_tls(host: str, is_it: bool) -> None:
    assert is_loopback(host) == is_it
    if is_it:
        Security().check((host, 1))
        return
    with pytest.raises(Insecure, match="--insecure"):
        Security().check(("127.0.0.1", 1), (host, 1))
    Security(insecure=True).check((host, 1))
    Security(tls=TlsFiles(certificate="", key="")).check((host, 1))
