"""`spoolrack send --batch`: the lines of a file or a pipe as one batch, all or nothing."""

from __future__ import annotations

from functools import partial

from spoolrack import Batch, BatchOptions, Client, Outgoing

from ..kit.exit_codes import BAD_CONTENT, OK, Failed, outcome_of
from ..kit.output import print_status
from ..kit.units import plural
from .line_reader import TOO_LONG, Lines


class LineBatch:
    """A batch of lines. It prints its outcome on standard error."""

    def __init__(
        self, client: Client, queue: str, like: Outgoing, advance: Lines.Advance, quiet: bool
    ) -> None:
        """Every line becomes a message `like` that one. `advance` is called with the messages in
        flight."""
        self._queue = client.queue(queue)
        self._like = like
        self._advance = advance
        self._quiet = quiet
        self.sent_count = 0
        """Messages that have been published."""

    def send(self, lines: Lines, options: BatchOptions) -> tuple[int, str | None]:
        """Stage all lines and publish them; return the exit code, and the stage if it is left to be
        published."""
        batch = self._queue.batch(**options)
        code, why = outcome_of(partial(self._fill, batch, lines))
        if code is not OK:
            print_status(
                f"{why.rstrip('.')}; {_in_doubt(batch) if batch.in_doubt else 'nothing was sent'}"
            )
            return code, None
        published = batch.published
        if published is None:
            return OK, batch.stage if batch.message_count else None
        self.sent_count = 0 if published.duplicate else published.message_count
        if published.duplicate:
            print_status(
                f"epoch {batch.epoch} of {batch.writer} was published before (its last is "
                f"{published.last_epoch}): nothing was sent"
            )
        elif not self._quiet:
            print_status(
                f"sent {plural(published.message_count, 'message')} to {self._queue.name}, all at once"
            )
        return OK, None

    def _fill(self, batch: Batch, lines: Lines) -> None:
        like = self._like
        with batch:
            for chunk in lines.chunks():
                if chunk.is_too_long:
                    raise Failed(f"line {chunk.first}: {TOO_LONG}", BAD_CONTENT)
                for line in chunk.lines:
                    batch.send(
                        line,
                        attributes=like.attributes,
                        delay=like.delay,
                        group=like.group,
                        priority=like.priority,
                    )
                self._advance(len(chunk.lines), sum(map(len, chunk.lines)) + len(chunk.lines))


def _in_doubt(batch: Batch) -> str:
    command = f"spoolrack stages publish {batch.stage}"
    if batch.writer != batch.stage:
        command += f" --writer {batch.writer} --epoch {batch.epoch}"
    return f"whether all was sent isn't known; to make sure of it: {command}"
