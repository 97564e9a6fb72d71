"""Planted bugs in what Spark's side promises: each row is read once and written once."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.proof.mutants import mutant
from tests.proof.mutants.mutant import SPARK, Mutant

edit = partial(mutant.edit, package=SPARK)

_CALLS: Final = "tests/client/test_spark_calls.py"
_CALLERS: Final = "tests/client/test_spark_callers.py"
_SEVERAL: Final = "tests/client/test_spark_several_queues.py"
_SHARDS: Final = "tests/client/test_spark_shards.py"
_QUERIES: Final = "tests/spark/test_spark_queries.py"
_ROOT: Final = "tests/spark/test_spark_root.py"

_OTHER_ROOTS: Final = "tests/client/test_spark_other_roots.py"

SPARK_MUTANTS: Final = (
    Mutant(
        name="a-call-names-no-root",
        breaks="a checkpoint of one server is refused by another",
        edits=edit("_light_client.py:LightClient.to", "replace(self, root=root)", "self"),
        caught_by=(f"{_OTHER_ROOTS}::test_a_checkpoint_of_one_server_is_refused_by_another",),
    ),
    Mutant(
        name="a-call-names-no-shard",
        breaks="a query that lacks the server of a shard, or has them in a wrong order, is refused",
        edits=edit("_light_client.py:LightClient._method", "(SHARD, self.shard)", '(SHARD, "")'),
        caught_by=(
            f"{_SHARDS}::test_shards_in_a_wrong_order_or_too_few_are_refused_before_anything_is_read",
        ),
    ),
    Mutant(
        name="a-checkpoint-names-the-root-of-one-shard",
        breaks="a checkpoint of shards is refused by a shard with another root",
        edits=edit(
            "_offsets.py:QueuesOffset.moved_to", "roots[shard] = found.pop()", "roots[0] = found.pop()"
        ),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-publication-tells-no-count",
        breaks="a batch that lacks a part is not published",
        edits=edit("_row_sender.py:publish", "message_count=rows.messages,", ""),
        caught_by=(f"{_SHARDS}::test_a_publication_that_lacks_a_part_is_refused",),
    ),
    Mutant(
        name="a-commit-that-is-not-remembered-ends-the-query",
        breaks="a batch of an old checkpoint that is done is passed over, where that is asked for",
        edits=edit(
            "_queue_reader.py:StreamReading.commit", "elif error.reason == COMMITTED:", "elif False:"
        ),
        caught_by=(f"{_CALLS}::test_a_commit_that_is_too_old_to_be_remembered_is_done",),
    ),
    Mutant(
        name="a-batch-of-another-queue-has-the-name-of-this-one",
        breaks="rows have the name of the queue that they are from",
        edits=edit(
            "_queues_reader.py:QueuesReading.parts", "queue=reservations[queue].queue", "queue=queue"
        ),
        caught_by=(
            f"{_OTHER_ROOTS}::test_a_checkpoint_of_another_queue_is_refused_and_an_old_one_is_labelled_right",
        ),
    ),
    Mutant(
        name="a-paused-queue-ends-the-query",
        breaks="a paused output queue is waited for, as a full one is",
        edits=edit("_light_client.py:may_repeat", "| SendingPaused", ""),
        caught_by=(f"{_CALLERS}::test_a_paused_queue_is_waited_for_as_a_full_one_is",),
    ),
    Mutant(
        name="an-expired-certificate-ends-the-query",
        breaks="a server with an expired certificate is asked again: it may exchange it",
        edits=edit(
            "_light_client.py:may_repeat",
            'return any(f"{_UNVERIFIED}: {why}" in text for why in _EXPIRED)',
            "return False",
        ),
        caught_by=(
            f"{_CALLERS}::test_a_certificate_that_has_expired_is_waited_for_until_the_server_has_a_new_one",
        ),
    ),
    Mutant(
        name="several-queues-one-after-the-other",
        breaks="the queues of a query are asked at the same time",
        edits=edit("_light_client.py:of_each", "if len(listed_keys) < 2:", "if True:"),
        caught_by=(f"{_SEVERAL}::test_several_queues_are_asked_at_the_same_time",),
    ),
    Mutant(
        name="a-batch-that-is-done-is-not-deleted",
        breaks="the messages of a batch are deleted when the query asks for the next one",
        edits=edit("_queues_reader.py:QueuesReading.latest", "self.commit(start)", ""),
        caught_by=(f"{_CALLS}::test_batches_follow_each_other_and_what_is_done_is_deleted",),
    ),
    Mutant(
        name="a-batch-is-deleted-when-it-is-planned",
        breaks="a batch is deleted only when Spark has written down that it is done",
        edits=edit(
            "_queue_reader.py:StreamReading.latest",
            "self._extender.keep(end, self._caller, self._named(end))\nreturn end",
            "self.commit(end)\nreturn end",
        ),
        caught_by=(f"{_CALLS}::test_a_first_batch_is_done_again_from_a_new_beginning",),
    ),
    Mutant(
        name="a-forgotten-reservation-is-left-behind",
        breaks="a query that drains a queue also does what a planner that died had reserved",
        edits=edit(
            "_queue_reader.py:StreamReading._is_reserved",
            "one.sequence_number > start.sequence_number and",
            "one.sequence_number < start.sequence_number and",
        ),
        caught_by=(f"{_CALLS}::test_with_what_is_there_a_forgotten_reservation_comes_too",),
    ),
    Mutant(
        name="a-fresh-writer-each-time",
        breaks="a batch that is done again publishes nothing",
        edits=edit("_sink.py:commit_rows", "written[0].writer,", "secrets.token_hex(16),"),
        caught_by=(f"{_QUERIES}::test_a_batch_is_published_once_and_none_behind_a_later_one",),
    ),
    Mutant(
        name="attempts-share-a-stage",
        breaks="attempts of one task don't mix what they write",
        edits=edit("_row_sender.py:stage", "name = secrets.token_hex(16)", 'name = "one"'),
        caught_by=(f"{_QUERIES}::test_attempts_of_a_task_have_stages_of_their_own",),
    ),
    Mutant(
        name="a-lost-hold-ends-a-slice",
        breaks="a task whose messages are with others fails, and is not done with a part of them",
        edits=edit(
            "_queue_reader.py:read_slice",
            'for frame in caller.frames("ReadReservation", rest):',
            "def until_it_breaks() -> Iterator[Any]:\n    try:\n"
            '        yield from caller.frames("ReadReservation", rest)\n'
            "    except SpoolrackError as error:\n"
            "        if error.reason not in GONE:\n            raise\n\n"
            "for frame in until_it_breaks():",
        ),
        caught_by=(f"{_CALLS}::test_a_slice_whose_hold_is_over_fails_its_task",),
    ),
    Mutant(
        name="a-broken-read-begins-anew",
        breaks="a read that breaks is taken up where it was",
        edits=edit("_queue_reader.py:read_slice", "begin = frame.next_index", ""),
        caught_by=(f"{_CALLS}::test_a_read_that_breaks_is_taken_up_where_it_was",),
    ),
    Mutant(
        name="bodies-by-column-have-other-checksums",
        breaks="a repeated batch is known by its rows, whichever form they are staged in",
        edits=edit("_row_sender.py:_before_body", "while size > 0x7F:", "while size > 0xFF:"),
        caught_by=("tests/spark/test_spark_columns.py",),
    ),
    Mutant(
        name="a-chunk-by-column-begins-with-the-batch",
        breaks="the rows of an Arrow batch that is a slice of another are its own",
        edits=edit(
            "_columns.py:_body_chunks",
            "[bodies.offset : bodies.offset + len(bodies) + 1]",
            "[: len(bodies) + 1]",
        ),
        caught_by=("tests/spark/test_spark_columns.py",),
    ),
    Mutant(
        name="what-is-done-is-refused-though-it-is-to-be-passed-over",
        breaks="a checkpoint that is behind what is done can be gone on with, where that is asked for",
        edits=edit(
            "_queue_reader.py:StreamReading.extend",
            "self._refuse_old(end.gen, end.sequence_number, error)",
            "raise",
        ),
        caught_by=(_CALLS,),
    ),
    Mutant(
        name="nobody-keeps-a-batch",
        breaks="a query that runs holds its batch, however long that takes",
        edits=edit(
            "_reservation_extender.py:ReservationExtender._run",
            "if self._extend(reservation):",
            "if not self._stopping.is_set() or self._extend(reservation):",
        ),
        caught_by=(f"{_CALLS}::test_a_batch_stays_reserved_for_as_long_as_its_query_lives",),
    ),
    Mutant(
        name="a-run-has-streams-of-its-own",
        breaks="a run of several queues finds what the run before has reserved and not written down",
        edits=edit(
            "_offsets.py:_stream", 'uuid.uuid5(uuid.NAMESPACE_URL, f"{gen}/{queue}")', "uuid.uuid4()"
        ),
        caught_by=(f"{_SEVERAL}::test_a_batch_that_was_not_written_down_is_planned_again_as_it_was",),
    ),
    Mutant(
        name="a-queue-without-ready-messages-is-not-asked-by-a-new-run",
        breaks="a run of several queues finds what the run before has reserved and not written down",
        edits=edit(
            "_queues_reader.py:QueuesReading._wanted",
            "if ready or self._last.get(queue) != start.of(queue).sequence_number:",
            "if ready:",
        ),
        caught_by=(f"{_SEVERAL}::test_a_batch_that_was_not_written_down_is_planned_again_as_it_was",),
    ),
    Mutant(
        name="a-batch-has-the-queues-of-the-batch-before",
        breaks="a batch of several queues has only those that were reserved for it",
        edits=edit(
            "_offsets.py:QueuesOffset.batch_since",
            "not offset.is_at(start.by_queue.get(queue))",
            "True",
        ),
        caught_by=(f"{_SEVERAL}::test_a_pattern_has_the_queues_that_match_also_those_that_come_later",),
    ),
    Mutant(
        name="an-old-checkpoint-is-no-error-of-its-own",
        breaks="a batch from a checkpoint that was put back says so, and its rows stay staged",
        edits=edit("_row_sender.py:publish", "if error.reason == _PASSED:", "if False:"),
        caught_by=(f"{_QUERIES}::test_a_batch_is_published_once_and_none_behind_a_later_one",),
    ),
    Mutant(
        name="a-batch-without-rows-is-not-remembered",
        breaks="a write without rows is another one than a write with rows of the same name",
        edits=edit(
            "_sink.py:commit_rows",
            "if written and (is_staged or is_repeatable) and not options.is_direct:",
            "if written and is_staged and not options.is_direct:",
        ),
        caught_by=(
            f"{_QUERIES}::test_a_write_without_rows_under_the_name_of_one_with_rows_fails_and_the_reverse",
        ),
    ),
    Mutant(
        name="a-partition-shares-its-query-s-writer",
        breaks="batches and partitions of queries, and their queues, have names of their own",
        edits=edit("_row_sender.py:writer_name", "place.encode()", "name.encode()"),
        caught_by=("tests/spark/test_spark_writer.py",),
    ),
    Mutant(
        name="an-old-checkpoint-goes-unnoticed",
        breaks="a batch from a checkpoint that was put back fails and isn't passed over",
        edits=edit("_row_sender.py:publish", "if answer.last_epoch > epoch:", "if False:"),
        caught_by=(f"{_QUERIES}::test_a_batch_is_published_once_and_none_behind_a_later_one",),
    ),
    Mutant(
        name="a-batch-with-other-rows-goes-unnoticed",
        breaks="a batch of a number that was published with other rows fails and isn't passed over",
        edits=edit("_row_sender.py:publish", "if not skips_different:", "if False:"),
        caught_by=(
            f"{_QUERIES}::test_a_batch_that_was_published_with_other_rows_fails_and_stays_staged",
        ),
    ),
    Mutant(
        name="a-checksum-depends-on-the-order",
        breaks="a batch that is done again in another order and other partitions is done already",
        edits=edit(
            "_row_sender.py:checksums",
            '[begin:end])\ntotal += int.from_bytes(checksum.digest(), "big")',
            '[begin:end])\ntotal = 3 * total + int.from_bytes(checksum.digest(), "big")',
        ),
        caught_by=(f"{_QUERIES}::test_a_write_that_is_done_again_under_its_name_writes_nothing",),
    ),
    Mutant(
        name="a-batch-that-no-task-has-read-is-deleted",
        breaks="a batch that the sink has skipped is not deleted",
        edits=edit(
            "_queue_reader.py:StreamReading.commit",
            "only_read=not self._options.deletes_unread",
            "only_read=False",
        ),
        caught_by=(
            "tests/client/test_spark_doubts.py::test_a_batch_that_no_task_has_read_is_not_deleted",
        ),
    ),
    Mutant(
        name="a-chunk-is-renumbered-when-it-is-repeated",
        breaks="a chunk whose answer was lost is staged once",
        edits=edit(
            "_light_client.py:LightClient.call_each",
            "call, first = first or begin(request), None",
            'if first is None and hasattr(request, "chunk_number"):\n'
            "    request.chunk_number += 1_000_000\ncall, first = first or begin(request), None",
        ),
        caught_by=(f"{_CALLS}::test_a_stage_is_whole_whatever_call_breaks",),
    ),
    Mutant(
        name="a-dead-letter-file-is-not-read",
        breaks="a row tells how a message died, also if a file says it",
        edits=edit(
            "_root_reader.py:_RangeReader._tell", "records_of(name, content)", "records_of(name)"
        ),
        caught_by=(f"{_ROOT}::test_each_message_of_a_batch_is_a_row_of_the_queue_that_it_died_into",),
    ),
    Mutant(
        name="a-message-that-moved-is-not-looked-for",
        breaks="a message that moves while a root is read is a row",
        edits=edit("_root_reader.py:_RangeReader.batches", "if moved:", "if not moved:"),
        caught_by=(f"{_ROOT}::test_a_message_that_moves_while_it_is_read_is_a_row",),
    ),
    Mutant(
        name="shares-of-a-look-overlap",
        breaks="each message is in one share of a batch read",
        edits=edit("_queue_peek.py:_request", "sent_before=_timestamp(share.end),", ""),
        caught_by=("tests/client/test_spark_peek.py",),
    ),
)
