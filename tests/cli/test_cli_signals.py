"""A signal comes at once where a command waits, and after the block where it must not stop."""

from __future__ import annotations

import signal

import pytest
from spoolrack_server.cli.kit import signals


@pytest.fixture(autouse=True)
def installed(kept_handlers: None) -> None:
    signals.install()


def test_a_signal_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signals.check()


def test_a_signal_waits_for_the_end_of_what_must_not_stop() -> None:
    done = []

    def work() -> None:
        with signals.deferred():
            with signals.deferred():
                signal.raise_signal(signal.SIGTERM)
                done.append("inner")
            done.append("outer")
        done.append("never")

    with pytest.raises(signals.Terminated):
        work()
    assert done == ["inner", "outer"]


def test_a_second_signal_does_not_wait() -> None:
    done = []

    def work() -> None:
        with signals.deferred():
            signal.raise_signal(signal.SIGTERM)
            done.append("once")
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    with pytest.raises(signals.Terminated):
        work()
    assert done == ["once"]


def test_cleaning_up_after_a_signal_does_not_raise_it_again() -> None:
    done = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            with signals.deferred():
                done.append("cleaned")
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["cleaned", "all"]
