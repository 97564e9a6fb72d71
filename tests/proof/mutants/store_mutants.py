"""Planted bugs in the store. Conditions on the order of moves and syncs are taken back one by one in
`tests/proof/crash/test_*_planted.py`; any other fault is here."""

from __future__ import annotations

from typing import Final

from tests.proof.mutants.mutant import AUDIT, Mutant, edit

_MQ: Final = "softlayer/mq"
_VSQS: Final = "vsqs"
_AFRESH: Final = "tests/store/test_failed_sync_restarts.py"
_BODIES: Final = "tests/proof/crash/test_body_crashes.py"
_AT_ONCE: Final = "tests/store/test_syncs_at_once.py"
_IN_A_ROW: Final = "tests/budget/test_syncs_in_a_row.py"
_AWAITED: Final = "tests/store/test_store_awaited.py"
_WORK: Final = "tests/store/test_background_work_shared.py"
_CLOCKS: Final = "tests/store/test_store_clocks.py"
_DEDUPLICATION: Final = "tests/store/test_deduplication_promises.py"
_CLOSE: Final = "tests/store/test_shared_close.py"
_DISK: Final = "tests/store/test_trouble_disk.py"
_RETRIES: Final = "tests/proof/crash/test_retry_crashes.py"
_EXPIRY: Final = "tests/store/test_expiry_promises.py"
_GROUPS: Final = "tests/store/test_group_promises.py"
_GROUP_ORDER: Final = "tests/store/test_group_order_shared.py"
_FRONT: Final = "tests/store/test_front_store.py"
_LOOKS: Final = "tests/store/test_questions.py"
_HAND: Final = "tests/store/test_trouble_hand.py"
_PACKED: Final = "tests/store/test_packed_messages.py"
_PAUSES: Final = "tests/store/test_paused_queues.py"
_PREFETCHED: Final = "tests/store/test_prefetched_messages.py"
_QUEUES: Final = "tests/store/test_store_queues.py"
_CATALOG: Final = "tests/store/test_catalog_requests.py"
_TOLD_OF_BATCHES: Final = "tests/client/contract/test_contract_batches.py"
_TOLD_OF_QUEUES: Final = "tests/client/contract/test_contract_queues.py"
_REAPER: Final = "tests/store/test_reaper_promises.py"
_DEATHS: Final = "tests/store/test_dead_letter_names.py"
_REDRIVES: Final = "tests/store/test_redrive_promises.py"
_REQUESTS: Final = "tests/store/test_store_requests.py"
_SCHEDULES: Final = "tests/store/test_schedule_promises.py"
_IDENTITY: Final = "tests/store/test_root_identity.py"
_SHARDS: Final = "tests/store/test_shards.py"
_STRAYS: Final = "tests/store/test_strays.py"
_SETS: Final = "tests/store/test_sets_reserved.py"
_WALKS: Final = "tests/store/test_bounded_walks.py"
_BOUNDED: Final = "tests/store/test_bounded_work.py"
_SLICED: Final = "tests/store/test_bounded_requests.py"
_SETS_SLICED: Final = "tests/store/test_sets_sliced.py"
_SET_READS: Final = "tests/store/test_set_reads.py"
_MODEL: Final = "tests/store/test_store_model.py"
_STAGES: Final = "tests/store/test_stages.py"
_STAGES_ENDS: Final = "tests/store/test_stages_ends.py"
_NAMES: Final = "tests/store/test_taken_names.py"
_STORIES: Final = "tests/proof/crash/test_engine_crashes.py"
_PUBLISHED: Final = "tests/store/test_published_counts.py"

STORE_MUTANTS: Final = (
    # Syncs.
    Mutant(
        name="answers-before-the-sync",
        breaks="no answer leaves before what it rests on is durable",
        edits=edit(
            "engine/engine.py:Engine._needs_sync",
            "if self.moves.syncer.is_in_doubt:\n    return True",
            "if requests:\n    return False",
        ),
        caught_by=(_STORIES, AUDIT),
        ancestor=_MQ,
    ),
    Mutant(
        name="published-before-the-sync",
        breaks="nothing leaves new/ before it is on stable media",
        edits=(
            *edit(
                "engine/sender.py:Sender.advance", "if commit > self._moves.synced:", "if commit < 0:"
            ),
            *edit(
                "engine/sender.py:Sender.send",
                "if self._coming:\n    self._answer_repeated()",
                "self.advance()",
            ),
        ),
        caught_by=("tests/proof/crash/test_engine_planted.py", _STORIES, AUDIT),
    ),
    Mutant(
        name="what-is-done-stays-pending",
        breaks="the engine comes to rest",
        edits=edit(
            "engine/sender.py:Sender.advance",
            "        self.in_new[:] = waiting\n",
            "        self.in_new = waiting\n",
        ),
        caught_by=("tests/store/test_engine_rest.py",),
    ),
    Mutant(
        name="folders-are-not-synced",
        breaks="a name is durable before an answer rests on it",
        edits=edit(
            "files/disk.py:Syncer.folder_changed", "self._dirty[folder] = None", "assert folder"
        ),
        caught_by=(_STORIES,),
        ancestor=_VSQS,
    ),
    Mutant(
        name="a-lone-file-is-not-synced",
        breaks="a message's content is durable before its send is answered",
        edits=edit("files/disk.py:Syncer.lone_file_written", "self._files[path] = None", "assert path"),
        caught_by=(_STORIES,),
        ancestor=_VSQS,
    ),
    Mutant(
        name="a-written-body-is-one-of-a-dead-process",
        breaks="a start leaves alone the bodies that living processes write",
        edits=edit(
            "engine/recovery.py:_name_of",
            "if owner and (owner == moves.owner or moves.is_living(owner)):",
            "if owner == moves.owner:",
        ),
        caught_by=(_BODIES,),
    ),
    Mutant(
        name="a-changed-body-is-not-found",
        breaks="bit rot in a body's own file is detected",
        edits=edit(
            "files/body_file.py:body_pieces",
            "if line.crcs[0] not in (None, crc):",
            "if line.crcs[0] not in (line.crcs[0], crc):",
        ),
        caught_by=("tests/store/test_external_bodies.py",),
    ),
    Mutant(
        name="a-body-goes-with-the-first-of-two-messages",
        breaks="a dead letter keeps the body that it shares with its original",
        edits=edit(
            "engine/moves.py:Moves.is_body_left",
            "return stem.is_external and not self.index.has_file_of(stem.id)",
            "return stem.is_external",
        ),
        caught_by=("tests/store/test_external_bodies.py",),
    ),
    Mutant(
        name="several-files-are-not-synced",
        breaks="the content of all messages is durable before their send is answered",
        edits=edit(
            "files/disk.py:Syncer.file_written",
            "self._files_unsynced = True",
            "self._files_unsynced = False",
        ),
        caught_by=(_STORIES,),
    ),
    Mutant(
        name="a-failed-sync-is-called-good",
        breaks="after a sync that failed nothing is answered with success",
        edits=edit(
            "files/disk.py:Syncer._sync_now", "raise SyncFailed(str(error)) from error", "return"
        ),
        caught_by=(_FRONT, _HAND, _DISK),
        ancestor=_MQ,
    ),
    Mutant(
        name="a-sync-at-once-is-not-awaited",
        breaks="an answer waits for each sync of its commit, also if they run at once",
        edits=edit(
            "files/local_disk.py:LocalDisk.run_at_once",
            "if not other.cancel():",
            "if not (other.running() or other.cancel()):",
        ),
        caught_by=(_AT_ONCE,),
    ),
    Mutant(
        name="a-sync-at-once-that-failed-is-called-good",
        breaks="a failed sync is one also if it runs beside others",
        edits=edit("files/local_disk.py:LocalDisk.run_at_once", "if errors:", "if not syncs:"),
        caught_by=(_AT_ONCE,),
    ),
    Mutant(
        name="syncs-never-run-at-once",
        breaks="an answer waits for one sync where each costs the way to another host",
        edits=edit("files/disk.py:Syncer._sync_now", "= OFTEN, AT_ONCE", "= OFTEN, 0"),
        caught_by=(_IN_A_ROW,),
    ),
    Mutant(
        name="syncs-run-at-once-on-a-local-disk",
        breaks="on a local disk a commit writes the journal once",
        edits=edit("files/disk.py:Syncer._sync_now", "saved > DEAR", "saved < DEAR"),
        caught_by=(_IN_A_ROW,),
    ),
    Mutant(
        name="syncfs-is-relied-on-behind-fuse",
        breaks="a sync of everything has reached the program that serves the file system",
        edits=edit(
            "files/mounts.py:passes_on_syncfs", "return not kind.startswith", "return not kind.endswith"
        ),
        caught_by=("tests/disks/test_file_systems_in_doubt.py",),
    ),
    Mutant(
        name="a-commit-of-several-hosts-is-synced-after-the-lock",
        breaks="no host builds on what isn't durable",
        edits=edit("files/disk.py:Syncer.begin", "if self._is_early:", "if False:"),
        caught_by=("tests/proof/crash/test_hosts_crashes.py",),
    ),
    Mutant(
        name="an-evicted-host-believes-its-syncs",
        breaks="a host that wakes after its eviction answers nothing with success",
        edits=edit("engine/sharing.py:Sharing._sync_for_others", "self._require_held()", "pass"),
        caught_by=("tests/proof/crash/test_fenced_hosts.py",),
    ),
    Mutant(
        name="a-host-ends-a-lease-of-another-one-by-its-own-clock-alone",
        breaks="a message isn't delivered again while its consumer has it, though clocks differ",
        edits=edit("engine/moves.py:Moves.__init__", "MARGIN if disk.several_hosts else 0", "0"),
        caught_by=("tests/store/test_several_hosts.py",),
    ),
    Mutant(
        name="a-process-joins-without-a-sync-of-everything",
        breaks="a process that can't make durable what others did answers nothing",
        edits=edit(
            "engine/sharing.py:Sharing._join",
            "if not (disk.can_sync_all or disk.several_hosts):",
            "if disk.can_sync_all is None:",
        ),
        caught_by=("tests/store/test_store_processes.py",),
    ),
    Mutant(
        name="a-start-believes-what-memory-shows-of-a-message",
        breaks="a start reads files from the disk, also after a sync that failed",
        edits=edit("engine/recovery.py:_is_whole", "moves.read(", "moves.disk.read("),
        caught_by=(_AFRESH,),
    ),
    Mutant(
        name="a-start-believes-what-memory-shows-of-a-chunk",
        breaks="a start reads files from the disk, also after a sync that failed",
        edits=edit("engine/stages.py:Stages._is_whole", "_moves.read(", "_moves.disk.read("),
        caught_by=(_AFRESH,),
    ),
    Mutant(
        name="a-start-believes-what-memory-shows-of-a-record",
        breaks="a start reads files from the disk, also after a sync that failed",
        edits=edit("engine/moves.py:Moves.read_record", ", afresh=True)", ")"),
        caught_by=(_AFRESH,),
    ),
    Mutant(
        name="adopted-without-a-sync",
        breaks="from its adoption on the promises hold for a file that was moved in by hand",
        edits=edit("engine/adoption.py:Adoption._adopt", "moves.disk.sync_file(path)", "assert path"),
        caught_by=(_HAND,),
    ),
    Mutant(
        name="bodies-are-written-twice",
        breaks="a file is written once and unlinked once",
        edits=edit(
            "files/local_disk.py:LocalDisk.create",
            "for part in parts:\n    self._calls.write_all(file, part)",
            "for _ in range(2):\n    os.lseek(file, 0, os.SEEK_SET)\n"
            "    for part in parts:\n        self._calls.write_all(file, part)",
        ),
        caught_by=(AUDIT,),
    ),
    # Restarts.
    Mutant(
        name="half-a-batch-is-delivered",
        breaks="the messages of one send appear all or not at all",
        edits=edit(
            "engine/entries.py:BatchFile.was_sent", "return listed == self.stem.full", "return True"
        ),
        caught_by=("tests/proof/crash/test_batch_rules.py", _STORIES),
    ),
    Mutant(
        name="new-is-stranded-by-a-restart",
        breaks="a message sent and not yet in its queue is delivered after a restart",
        edits=edit("engine/recovery.py:_finish", "if entry.held:", "if not entry.held:"),
        caught_by=(_FRONT, _STORIES),
        ancestor=_MQ,
    ),
    Mutant(
        name="delay-is-stranded-by-a-restart",
        breaks="a leased or delayed message is ready when it is due, also after a restart",
        edits=edit(
            "engine/recovery.py:list_root",
            "(*FOLDERS, *_queue_folders(moves))",
            '("new", "remove", "quarantine", *_queue_folders(moves))',
        ),
        caught_by=(_CLOCKS,),
        ancestor=_MQ,
    ),
    Mutant(
        name="dues-are-forgotten-by-a-restart",
        breaks="a lease stands until it is due, also after a restart",
        edits=edit(
            "engine/recovery.py:_monotonic",
            "max(-MAX_VISIBILITY, min(due - moves.clock.wall(), most))",
            "min(0, most)",
        ),
        caught_by=(_CLOCKS,),
    ),
    Mutant(
        name="dues-are-not-clamped",
        breaks="a due beyond the maximum counts as the maximum",
        edits=edit(
            "engine/recovery.py:_monotonic",
            "max(-MAX_VISIBILITY, min(due - moves.clock.wall(), most))",
            "max(min(-MAX_VISIBILITY, most), due - moves.clock.wall())",
        ),
        caught_by=(_CLOCKS,),
    ),
    Mutant(
        name="ids-start-anew",
        breaks="new messages stand behind old ones after a restart, whatever the clock did",
        edits=edit("model/message_ids.py:IdMaker.rise_above", "if id <= self._highest:", "if id:"),
        caught_by=(_CLOCKS,),
    ),
    Mutant(
        name="what-is-deleted-comes-back",
        breaks="of two names that list a message the higher version counts",
        edits=edit(
            "engine/entries.py:_outranks",
            "return one.version > other.version",
            "return one.version < other.version",
        ),
        caught_by=("tests/proof/crash/test_batch_rules.py", _STORIES),
        ancestor=_MQ,
    ),
    # Order and content.
    Mutant(
        name="ids-fall-with-the-clock",
        breaks="ids rise, also when the clock steps back",
        edits=edit(
            "model/message_ids.py:IdMaker.make", "if now > self._millis:", "if now != self._millis:"
        ),
        caught_by=("tests/unit/test_ids.py",),
    ),
    Mutant(
        name="requeued-at-the-end",
        breaks="a due message returns to its old place",
        edits=edit(
            "engine/index.py:SortedNames.add", "chunk.insert(place, name)", "chunk.append(name)"
        ),
        caught_by=(_WORK,),
    ),
    Mutant(
        name="checksums-are-not-compared",
        breaks="bit rot is detected on every read",
        edits=edit(
            "model/batch_file.py:body", "or line.crcs[index] not in (None, zlib.crc32(found))", ""
        ),
        caught_by=("tests/unit/test_content.py",),
    ),
    Mutant(
        name="a-rename-replaces",
        breaks="nothing is replaced by accident",
        edits=edit(
            "files/local_disk.py:LocalDisk.rename_new",
            "after, _NOREPLACE)",
            "after, 0)",
        ),
        caught_by=(_WORK,),
    ),
    # Leases.
    Mutant(
        name="any-receipt-of-the-message-will-do",
        breaks="a receipt of an older lease touches nothing",
        edits=edit(
            "engine/leaser.py:Leaser.find", "or not receipts.fits(receipt, name.token, index)", ""
        ),
        caught_by=(_REQUESTS,),
    ),
    Mutant(
        name="any-receive-of-the-message-is-its-last",
        breaks="a lease that is over is deleted by its last receive, and by no earlier one",
        edits=edit("engine/leaser.py:_is_last", "and (name.receives, name.first) == last", ""),
        caught_by=("tests/proof/crash/test_last_receive_crashes.py",),
    ),
    Mutant(
        name="a-message-dies-with-its-lease-always",
        breaks="with dead_letter_at receive, a message stays in its queue until the next receive",
        edits=edit(
            "engine/dead_letters.py:DeadLetters.dies_with_lease",
            'record.settings.dead_letter_at == "receive"',
            'record.settings.dead_letter_at == "never"',
        ),
        caught_by=("tests/sqs/test_sqs_queues.py",),
    ),
    Mutant(
        name="an-update-keeps-the-old-labels",
        breaks="labels are what the last update says",
        edits=edit("engine/catalog.py:Catalog.update", ", labels=labels", ""),
        caught_by=("tests/sqs/test_sqs_queues.py",),
    ),
    Mutant(
        name="a-delivery-time-is-taken-for-a-delay",
        breaks="a message with a delivery time is hidden until then",
        edits=edit("engine/sender.py:Sender._delay_of", "[position] - self._wall", "[position]"),
        caught_by=(_REQUESTS,),
    ),
    Mutant(
        name="a-paused-schedule-sends",
        breaks="ticks of a pause are not sent",
        edits=edit("engine/schedule_catalog.py:ScheduleCatalog._stage", "there.is_paused or", ""),
        caught_by=(_SCHEDULES,),
    ),
    Mutant(
        name="a-schedule-whose-time-is-changed-sends-the-ticks-of-the-old-time",
        breaks="a changed time has no tick before the change",
        edits=edit(
            "engine/schedule_catalog.py:ScheduleCatalog.update",
            "since=self._clock.wall()",
            "since=there.since",
        ),
        caught_by=(_SCHEDULES,),
    ),
    Mutant(
        name="a-schedule-of-the-same-name-sends-the-ticks-of-the-one-before",
        breaks="nothing is sent for a schedule that is deleted",
        edits=edit(
            "engine/schedule_catalog.py:ScheduleCatalog._stage", "or there.token != request.token", ""
        ),
        caught_by=(_SCHEDULES,),
    ),
    Mutant(
        name="a-tick-is-sent-again-after-its-memory",
        breaks="the last tick is remembered as long as its schedule is there",
        edits=edit(
            "engine/stages.py:Stages._is_to_be_forgotten",
            "return not self._catalog.has_writer(end.writer)",
            "return True",
        ),
        caught_by=(_SCHEDULES,),
    ),
    Mutant(
        name="a-receive-is-not-counted",
        breaks="a message tells how often it was received",
        edits=edit("engine/moves.py:received", "entry.name.receives + 1", "entry.name.receives"),
        caught_by=(_CATALOG,),
    ),
    Mutant(
        name="leases-end-with-the-wall-clock",
        breaks="a step of the clock neither expires nor freezes a lease",
        edits=edit(
            "engine/leaser.py:Leaser.advance",
            "now = self._clock.monotonic()",
            "now = Millis(self._clock.wall() - 1_600_000_000_000)",
        ),
        caught_by=(_CLOCKS,),
    ),
    Mutant(
        name="an-uncounted-release-counts",
        breaks="a release may say that the receive doesn't count",
        edits=edit(
            "engine/leaser.py:Leaser.release", "count = max(0, count - 1)", "count = max(0, count)"
        ),
        caught_by=(_RETRIES,),
    ),
    Mutant(
        name="a-back-off-counts-from-the-commit",
        breaks="the back-off of an expired lease ends when its name and the settings say",
        edits=edit(
            "engine/leaser.py:Leaser._expire_lease",
            "until = Millis(name.due + pause), entry.due + pause",
            "until = Millis(self._clock.wall() + pause), self._clock.monotonic() + pause",
        ),
        caught_by=(_RETRIES,),
    ),
    Mutant(
        name="a-back-off-ends-with-its-lease",
        breaks="after a start a back-off counts from when the lease was over",
        edits=edit(
            "engine/recovery.py:_monotonic", "left = max(-MAX_VISIBILITY, min(", "left = max(0, min("
        ),
        caught_by=("tests/store/test_retry_promises.py",),
    ),
    Mutant(
        name="a-dead-letter-file-is-not-synced",
        breaks="a dead-letter file is on stable media before a name refers to it",
        edits=edit(
            "engine/moves.py:Moves.write_ahead", "self.sync_now(list(files), ", "self.sync_now((), "
        ),
        caught_by=(_RETRIES,),
    ),
    Mutant(
        name="the-jitter-forgets-the-count",
        breaks="a back-off is shortened differently after each receive",
        edits=edit("model/backoff.py:pause", "{id},r{receives}", "{id},r"),
        caught_by=("tests/store/test_retry_promises.py",),
    ),
    Mutant(
        name="an-undone-lease-is-counted",
        breaks="a lease that no consumer has seen leaves no trace",
        edits=edit(
            "engine/leaser.py:Leaser._uncount", ", receives=max(0, entry.name.receives - 1)", ""
        ),
        caught_by=(_FRONT, _PREFETCHED),
    ),
    Mutant(
        name="a-process-that-closes-leaves-its-last-sends-in-new",
        breaks="messages of a process are received by others once it has closed the root",
        edits=edit(
            "engine/engine.py:Engine.close",
            "self._guarded(self._sender.advance)\nself._guarded(self.redrives.count_moved)\n"
            "if not self._sender.has_durable:",
            "if True:",
        ),
        caught_by=(_CLOSE,),
    ),
    Mutant(
        name="a-process-that-could-not-publish-leaves-the-members",
        breaks="messages of a process are received by others once it has closed the root",
        edits=edit("engine/engine.py:Engine.close", "if not self._sender.has_durable:", "if True:"),
        caught_by=(_CLOSE,),
    ),
    Mutant(
        name="a-part-stops-the-commit",
        breaks="a refusal of the disk to one part of the engine stops no other part and no request",
        edits=edit(
            "engine/engine.py:Engine._guarded",
            "except StoreError as error:",
            "except ZeroDivisionError as error:",
        ),
        caught_by=(_DISK,),
    ),
    Mutant(
        name="a-damaged-message-is-not-put-aside",
        breaks="a damaged message goes to quarantine, and is delivered no more",
        edits=edit("engine/leaser.py:Leaser._deliver_of", "self._quarantine(entry, index, body)", ""),
        caught_by=(_DISK,),
    ),
    Mutant(
        name="a-lease-of-what-cannot-be-handed-out-is-told",
        breaks="a consumer hears only of a lease that other processes can find",
        edits=edit("engine/leaser.py:Leaser.hand_out", "refused.append(entry)", ""),
        caught_by=(_AWAITED, _DISK),
    ),
    Mutant(
        name="what-was-moved-away-is-delivered",
        breaks="a message taken out of a queue by hand is not delivered",
        edits=edit("engine/moves.py:Moves._make_name", "raise", ""),
        caught_by=(_DISK,),
        ancestor=_MQ,
    ),
    # Deletes.
    Mutant(
        name="a-delete-that-finds-no-lease-does-nothing",
        breaks="a delete that has not deleted says so",
        edits=edit("engine/leaser.py:Leaser.find", "raise StaleReceipt(id=receipt.id)", "return None"),
        caught_by=(_REQUESTS,),
        ancestor=_VSQS,
    ),
    Mutant(
        name="a-filtered-page-skips-what-it-has-not-looked-at",
        breaks="pages of a filter show each message that it takes, once",
        edits=edit(
            "engine/questions.py:Questions.page",
            "return MessagePage(messages=messages, last=after)",
            "return MessagePage(messages=messages, last=search.after)",
        ),
        caught_by=(_LOOKS,),
    ),
    Mutant(
        name="a-list-takes-the-next-file-for-the-last-one",
        breaks="a list opens the file of a batch once, and another one's for other messages",
        edits=edit(
            "engine/questions.py:_FileReader.open",
            "if self._opened is None or stem != self._stem:",
            "if self._opened is None:",
        ),
        caught_by=(_LOOKS,),
    ),
    Mutant(
        name="a-filter-reads-files-without-bound",
        breaks="a page of a filter reads a bounded number of messages",
        edits=edit(
            "engine/questions.py:_Search.is_enough",
            "len(self.unread) >= _MOST_FILES",
            "len(self.unread) < 0",
        ),
        caught_by=(_LOOKS,),
    ),
    Mutant(
        name="commits-wait-for-all-that-a-page-passes-over",
        breaks="a page of messages keeps commits waiting for a bounded time",
        edits=edit(
            "engine/questions.py:Questions._locate_some",
            "islice(files, _AT_ONCE)",
            "islice(files, 1_000_000)",
        ),
        caught_by=("tests/store/test_question_costs.py",),
    ),
    Mutant(
        name="a-purge-by-age-takes-what-is-as-old",
        breaks="a purge by age takes what was sent before that time, and nothing else",
        edits=edit(
            "model/operations.py:Purge.matches",
            "sent_at < self.sent_before",
            "sent_at <= self.sent_before",
        ),
        caught_by=(_TOLD_OF_QUEUES,),
    ),
    Mutant(
        name="a-purge-by-state-takes-what-is-on-its-way-to-another",
        breaks="a purge by state takes no message of another state",
        edits=edit("engine/remover.py:_state_to_be", "if name.due is None:", "if name:"),
        caught_by=(_REQUESTS,),
    ),
    Mutant(
        name="a-purge-by-state-takes-all",
        breaks="a purge by state takes no message of another state",
        edits=edit(
            "engine/remover.py:Remover._purge",
            "request.matches(_state_to_be(entry.name),",
            "request.matches(State.READY,",
        ),
        caught_by=(_STORIES, _REQUESTS),
    ),
    Mutant(
        name="purge-forgets-what-is-hidden",
        breaks="a purge takes leased and delayed messages, too",
        edits=edit(
            "engine/remover.py:Remover._purge",
            "held = entry.held",
            "held = 0 if entry.due else entry.held",
        ),
        caught_by=(_REQUESTS,),
    ),
    Mutant(
        name="what-another-process-sends-is-called-missing",
        breaks="a delete by id never says of a message that was sent that there is none",
        edits=edit(
            "engine/remover.py:Remover._find", "if self._is_being_sent(queue, id):", "if not id:"
        ),
        caught_by=("tests/store/test_store_processes.py",),
    ),
    # Queues.
    Mutant(
        name="a-queue-is-made-again-too-early",
        breaks="create says retry until a deleted queue's messages are put away",
        edits=edit(
            "engine/catalog.py:Catalog.create",
            "if name in self._tombstones:\n    raise QueueBeingDeleted(queue=name)",
            "",
        ),
        caught_by=(_REQUESTS,),
    ),
    Mutant(
        name="every-receive-lists-its-queue",
        breaks="a receive costs the same with one message waiting and with a million",
        edits=edit(
            "engine/leaser.py:Leaser.check",
            "visibility = request.visibility",
            'self._moves.disk.scan(f"queues/{record.name}")\nvisibility = request.visibility',
        ),
        caught_by=(_QUEUES,),
        ancestor=_VSQS,
    ),
    Mutant(
        name="every-send-lists-its-queue",
        breaks="a send costs the same with one message waiting and with a million",
        edits=edit(
            "engine/sender.py:Sender._write",
            "count = len(file.bodies)",
            'self._moves.disk.scan(f"queues/{file.queue}")\ncount = len(file.bodies)',
        ),
        caught_by=(_QUEUES,),
        ancestor=_VSQS,
    ),
    # Deduplication.
    Mutant(
        name="a-window-never-ends",
        breaks="an id may be sent again when its window is over",
        edits=edit(
            "engine/deduplication.py:Deduplication._first_within",
            "self._clock.wall() - window + 1",
            "0 * window",
        ),
        caught_by=(_DEDUPLICATION,),
    ),
    Mutant(
        name="a-repetition-is-answered-undurable",
        breaks="a repetition is answered only once the first message is on stable media",
        edits=edit("engine/deduplication.py:Deduplication.find", "self._make_durable(key)", ""),
        caught_by=(_DEDUPLICATION, "tests/proof/crash/test_deduplication_crashes.py"),
    ),
    # Stages.
    Mutant(
        name="a-chunk-is-stored-as-often-as-it-comes",
        breaks="a chunk that is there already is not stored again",
        edits=edit(
            "engine/stages.py:Stages.stage",
            "if stage is None or there is None:",
            "if stage is None or request.chunk >= 0:",
        ),
        caught_by=(_TOLD_OF_BATCHES,),
    ),
    Mutant(
        name="an-older-epoch-is-published-again",
        breaks="an epoch that is not above the writer's last publishes nothing",
        edits=edit(
            "engine/stages.py:Stages.publish",
            "request.epoch <= last.epoch:",
            "request.epoch == last.epoch:",
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="an-epoch-with-other-messages-counts-as-done",
        breaks="an epoch that was published with other messages is refused",
        edits=edit(
            "engine/stages.py:Stages.publish",
            'and known and request.digest not in ("", known):',
            "and request.digest is None:",
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="a-digest-is-forgotten-by-a-start",
        breaks="the digest of an epoch is remembered as long as the epoch",
        edits=edit("model/manifest.py:decode", 'digest=str(parts["digest"]),', 'digest="",'),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="another-chunk-counts-as-a-repetition",
        breaks="a chunk counts as repeated only if it is the same",
        edits=edit("engine/stages.py:Stages.stage", "not self._holds(there, request):", "False:"),
        caught_by=(_NAMES, "tests/proof/crash/test_stage_crashes.py"),
    ),
    Mutant(
        name="a-chunk-of-the-same-checksum-counts-as-a-repetition",
        breaks="a chunk counts as repeated only if it is the same",
        edits=edit(
            "engine/stages.py:Stages._holds",
            'content[: line.starts[-1]] == b"".join(request.bodies)',
            "list(line.crcs) == list(again.crcs)",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-foreign-chunk-is-taken",
        breaks="a stage with messages for a queue that isn't allowed is another caller's",
        edits=edit("engine/stages.py:Stages._find", "not stage.is_within(allowed):", "False:"),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-stranger-s-epoch-counts-as-the-caller-s",
        breaks="an epoch is answered as published only to a caller that could have published it",
        edits=edit(
            "engine/stages.py:Stages.publish",
            "if not _owns(request, before, last.epoch):",
            "if request.epoch < 0:",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="another-identity-s-epoch-needs-no-digest",
        breaks="an epoch of another identity is answered as published only by its digest",
        edits=edit(
            "engine/stages.py:_owns", "(is_same or not last.owner)", "(is_same or bool(last.owner))"
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="an-owner-is-forgotten-by-a-start",
        breaks="the owner of a writer is remembered as long as its epoch",
        edits=edit("model/manifest.py:decode", 'owner=str(parts.get("owner", "")),', 'owner="",'),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-publication-without-messages-frees-its-writer",
        breaks="a writer belongs to the queues of its last messages",
        edits=edit(
            "engine/stages.py:Stages.publish",
            "or (before.queues if before is not None else {}),",
            "or {},",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="an-older-epoch-counts-as-published-whatever-its-digest",
        breaks="an epoch with a digest is answered as published only if these messages were",
        edits=edit(
            "engine/stages.py:Stages.publish",
            "if request.epoch < last.epoch and request.digest:",
            "if request.epoch < 0:",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-schedule-s-names-are-taken-from-it",
        breaks="no caller publishes, stages or aborts under the names of a schedule",
        edits=edit(
            "engine/stages.py:Stages._refuse_scheduled",
            "is_schedule_writer(writer) and",
            "not is_schedule_writer(writer) and",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-stage-begun-anew-is-hidden-by-the-former",
        breaks="a process finds a stage that another one has begun anew",
        edits=edit(
            "engine/stages.py:Stages._reopen",
            "if self._open.get(name) is stage:",
            "if name in self._open:",
        ),
        caught_by=(_STAGES_ENDS,),
    ),
    Mutant(
        name="a-torn-chunk-is-kept",
        breaks="a chunk is stored whole or not at all",
        edits=edit("engine/stages.py:_is_short", "return size != chunk.stem.length", "return False"),
        caught_by=(_STAGES_ENDS, "tests/proof/crash/test_stage_crashes.py"),
    ),
    # Reservations.
    Mutant(
        name="a-stranger-uses-a-stream",
        breaks="a stream belongs to the queues of its sets",
        edits=edit(
            "engine/reserver.py:Reserver._require_own",
            "if not all(map(allowed, queues.union(self._queues_of(stream)))):",
            "if not all(map(allowed, self._queues_of(stream))):",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-committed-stream-is-free",
        breaks="a stream belongs to the queues of its last commit",
        edits=edit(
            "model/reservation_names.py:Marker.decode",
            'queues=list_in({"queues": [], **values}, "queues", str, is_queue_name),',
            "",
        ),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-commit-without-sets-frees-its-stream",
        breaks="a stream belongs to the queues of its last commit that had sets",
        edits=edit("engine/reserver.py:Reserver._commit", "or self._queues_of(stream)", "or ()"),
        caught_by=(_NAMES,),
    ),
    Mutant(
        name="a-set-of-another-queue-is-answered",
        breaks="a reservation is answered only for its own queue",
        edits=edit(
            "engine/reserver.py:Reserver.reserve", "there.queue != request.queue and", "not key and"
        ),
        caught_by=(_NAMES, "tests/proof/crash/test_set_crashes.py"),
    ),
    Mutant(
        name="a-commit-deletes-what-others-have-leased-since",
        breaks="a commit of a lost set leaves the messages that other readers have leased since",
        edits=edit("engine/reserver.py:Reserver._untouched", "and name.receives == receives", ""),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="a-page-of-a-set-passes-over-what-it-has-no-room-for",
        breaks="each message of a set is read, page by page",
        edits=edit(
            "engine/set_reader.py:SetReader.page",
            "page.following = place + below(members, unread).bit_count()",
            "page.following = min(place + count, end)",
        ),
        caught_by=(_SET_READS,),
    ),
    Mutant(
        name="a-run-of-messages-is-read-over-a-gap",
        breaks="a read of a set leaves out deleted messages",
        edits=edit(
            "engine/set_reader.py:SetReader._leased_runs",
            "runs(entry.held & wanted)",
            "runs(entry.name.members & wanted)",
        ),
        caught_by=(_SET_READS,),
    ),
    Mutant(
        name="an-overtaken-process-goes-on-without-a-folder",
        breaks="a process that others have overtaken lists the whole root before it goes on",
        edits=edit("engine/sharing.py:Sharing._catch_up", "self._is_listed = False", "pass"),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="the-head-is-noted-after-the-listing",
        breaks="a process that lists the root beside others knows what they moved meanwhile",
        edits=edit(
            "engine/sharing.py:Sharing._list",
            "self._is_listed = True",
            "self._is_listed = True\nself._changes.read_header()\nself._changes.skip()",
        ),
        caught_by=("tests/proof/crash/test_joining_crashes.py",),
    ),
    Mutant(
        name="a-name-seen-twice-is-indexed-twice",
        breaks="a move that a listing has seen already is replayed without harm",
        edits=edit("engine/sharing.py:Sharing._replay", "if index.entry_at(name) is None:", "if True:"),
        caught_by=("tests/proof/crash/test_joining_crashes.py",),
    ),
    Mutant(
        name="a-hold-ends-while-the-marker-cannot-be-read",
        breaks="committed messages stay deleted, also while the record of the commit can't be read",
        edits=edit(
            "engine/reserver.py:Reserver._attempt", "self._moves.require_read(self.folders)", ""
        ),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="a-committed-set-is-reserved-again",
        breaks="a set committed under a name is not reserved under it again",
        edits=edit("engine/reserver.py:Reserver._refuse_committed", "if", "if False and"),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="an-identity-is-told-before-it-is-durable",
        breaks="a caller that was told a root's identity never meets another one after a power cut",
        edits=edit("files/root.py:_identify", "disk.sync_file(IDENTITY)", "None"),
        caught_by=(_IDENTITY,),
    ),
    Mutant(
        name="a-snapshot-has-another-identity",
        breaks="a snapshot has the identity of its root",
        edits=edit("snapshot.py:take_snapshot", "if id else {}", "if False else {}"),
        caught_by=(_IDENTITY,),
    ),
    Mutant(
        name="a-folder-of-a-queue-is-made-anew-without-a-word",
        breaks="a start says that the messages of a queue's folder are lost",
        edits=edit("engine/catalog.py:Catalog._restore_folders", "log.error(", "log.debug("),
        caught_by=("tests/faults/test_lost_files.py",),
    ),
    Mutant(
        name="a-commit-of-what-never-was-is-a-success",
        breaks="a reader of another root's stream is never told that its messages are deleted",
        edits=edit(
            "engine/reserver.py:Reserver._commit",
            "self._require_known(stream, last_sequence_number, request.queue)",
            "pass",
        ),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="a-name-of-another-shard-is-taken",
        breaks="a queue that belongs to another shard is made on none but that one",
        edits=edit("engine/catalog.py:Catalog.require_here", "self._shard.require(name)", "pass"),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-dead-letter-queue-is-on-another-shard",
        breaks="dead letters stay on the shard of their queue",
        edits=edit("engine/catalog.py:Catalog.broken_rule", "shard.has(other)", "True"),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-root-is-served-as-another-shard",
        breaks="a root is never served as another shard than it was made as",
        edits=edit("files/root.py:_keep_shard", "shard not in (None, shard_of_root)", "False"),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-shard-is-not-durable",
        breaks="a root that has served as a shard is one after a power cut",
        edits=edit("files/root.py:_keep_shard", '_sync(lambda: disk.sync_folder("."))', "pass"),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-root-with-queues-of-others-becomes-a-shard",
        breaks="a shard has no queue that belongs elsewhere",
        edits=edit("files/root.py:_require_empty_of_others", "if others:", "if False:"),
        caught_by=(_SHARDS,),
    ),
    Mutant(
        name="a-commit-that-strays-below-a-stream-is-a-success",
        breaks="a reader of another root's set is never told that its messages are deleted",
        edits=edit(
            "engine/reserver.py:Reserver._require_known",
            "self._refuse_committed(stream, number)",
            "pass",
        ),
        caught_by=(_STRAYS,),
    ),
    Mutant(
        name="a-repeated-commit-is-no-longer-known",
        breaks="a commit that is repeated behind a later one is a success",
        edits=edit(
            "engine/reserver.py:Reserver._write_marker",
            "(*earlier[-REMEMBERED_SETS:], *sets)",
            "(*sets,)",
        ),
        caught_by=(_STRAYS,),
    ),
    Mutant(
        name="a-part-of-a-batch-is-published",
        breaks="a publication of fewer messages than were staged is refused",
        edits=edit(
            "engine/stages.py:Stages.publish",
            "if request.messages and request.messages != held:",
            "if False:",
        ),
        caught_by=(_STRAYS,),
    ),
    Mutant(
        name="an-idle-reader-is-forgotten",
        breaks="a commit that is repeated now and then is remembered for as long",
        edits=edit(
            "engine/reserver.py:Reserver._commit",
            "self._clock.wall() - MEMORY // 2",
            "self._clock.wall() - MEMORY * 2",
        ),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="a-publication-counts-for-a-queue-that-was-created-again",
        breaks="a repeated publication is no success for a queue that it never reached",
        edits=edit(
            "engine/stages.py:Stages.publish", "self._has_newer_queue(request, before)", "False"
        ),
        caught_by=(_STAGES,),
    ),
    Mutant(
        name="a-set-outlives-its-queue",
        breaks="a set of a queue that was deleted is lost, also if its name is another queue's",
        edits=edit(
            "engine/reserver.py:Reserver._is_queue_gone",
            "or (created_at is not None and created_at != record.created_at)",
            "",
        ),
        caught_by=(_SETS,),
    ),
    Mutant(
        name="a-large-set-is-leased-in-one-commit",
        breaks="other callers are answered while a large set is leased",
        edits=edit(
            "engine/reserver.py:Reserver._lease_slice",
            "min(left, PORTION if is_only else max(1, self.effort.left))",
            "left",
        ),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="a-set-in-slices-has-what-is-not-leased-any-more",
        breaks="a set has the messages that are leased under its token, and no others",
        edits=edit(
            "engine/reserver.py:Reserver._leave_out_unleased",
            "(there := members & left.get(text, 0))",
            "(there := members)",
        ),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="slices-of-a-living-process-are-undone",
        breaks="leases that a living process is about to name are its own",
        edits=edit("engine/reserver.py:Reserver._find_unnamed", "if mark_in(token) not in others", ""),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="slices-of-a-dead-process-stay-leased",
        breaks="leases of a dead process that are of no set are undone",
        edits=edit("engine/reserver.py:Reserver.tick", "self._find_unnamed()", ""),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="an-answer-of-a-waiting-receive-is-kept-for-the-collector",
        breaks="a receive that has waited leaves no garbage",
        edits=edit(
            "committer.py:Committer._park",
            "if done.cancelled() else None",
            "if done.cancelled() and waiter else None",
        ),
        caught_by=("tests/store/test_store_waiting.py",),
    ),
    Mutant(
        name="slices-keep-the-lock-from-other-processes",
        breaks="a process that shares a root leaves the lock to others between two slices",
        edits=edit("committer.py:Committer._finish", "and self._engine.sharing.is_shared", "and False"),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="a-strict-group-is-cut-short-by-slices",
        breaks="a set of a strict queue is leased at once: its groups are blocked from then on",
        edits=edit(
            "engine/reserver.py:Reserver._lease_slice",
            "PORTION if is_only else max",
            "max",
        ),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="a-large-commit-deletes-all-at-once",
        breaks="other callers are answered while the messages of a large set are deleted",
        edits=edit(
            "engine/reserver.py:Reserver._finish", "in self._slice(leases):", "in list(leases):"
        ),
        caught_by=(_SETS_SLICED,),
    ),
    Mutant(
        name="what-is-too-old-is-delivered-behind-a-slice",
        breaks="a message past the retention is delivered to no receive",
        edits=edit("engine/leaser.py:Leaser.pick", "record.name in self._expiring", "False"),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="a-retention-goes-on-with-the-next-tick-only",
        breaks="a retention deletes in one commit after the other",
        edits=edit("engine/leaser.py:Leaser.next_due", "or self._expiring", ""),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="a-set-ends-where-messages-are-too-old",
        breaks="a reservation waits until what is too old is deleted",
        edits=edit(
            "engine/reserver.py:Reserver._lease_slice",
            "if self._leaser.expire(queue):",
            "if self._leaser.expire(queue) and not queue:",
        ),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="the-rest-of-what-a-dead-process-sent-stays-in-new",
        breaks="all that a dead process has sent is published, in slices",
        edits=edit("engine/recovery.py:finish_sends", "sent[:at] = []", "sent.clear()"),
        caught_by=(_WALKS,),
    ),
    Mutant(
        name="stages-that-expire-are-dropped-at-once",
        breaks="other callers are answered while many stages expire",
        edits=edit(
            "engine/stages.py:Stages._drop_expired",
            "self._moves.effort.share() - len(self._unfinished)",
            "len(self._deadlines.times)",
        ),
        caught_by=(_WALKS,),
    ),
    Mutant(
        name="an-end-of-a-stage-is-looked-at-once",
        breaks="a stage that has ended leaves nothing behind",
        edits=edit(
            "engine/stages.py:Stages.advance",
            "self._unfinished[end] = self._unfinished.pop(end)",
            "self._unfinished.pop(end)",
        ),
        caught_by=("tests/proof/crash/test_job_deaths.py", _WALKS),
    ),
    Mutant(
        name="an-adoption-takes-a-whole-commit",
        breaks="other callers are answered while many files are adopted",
        edits=edit("engine/adoption.py:Adoption.advance", "left -= files", "left -= 0"),
        caught_by=("tests/store/test_trouble_hand.py",),
    ),
    Mutant(
        name="holds-that-end-together-are-noted-at-once",
        breaks="other callers are answered while many holds end",
        edits=edit("engine/reserver.py:Reserver._end_holds", "self._left > 0 and", ""),
        caught_by=("tests/store/test_set_costs.py",),
    ),
    Mutant(
        name="a-queue-that-expires-is-looked-at-once",
        breaks="an idle queue is removed whenever it has expired",
        edits=edit(
            "engine/expiry.py:Expiry._look", "self._looks.set(name, Millis(now + _pause(record)))", ""
        ),
        caught_by=(_EXPIRY,),
    ),
    Mutant(
        name="a-part-takes-the-whole-effort-of-a-commit",
        breaks="the background work of a commit is bounded in sum",
        edits=edit("engine/part.py:Effort.share", "self.left // 2", "self.left"),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="effort-is-not-spent",
        breaks="the background work of a commit is bounded in sum",
        edits=edit("engine/part.py:Effort.spend", "self.left - files", "self.left"),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="older-settings-outlive-a-deleted-queue",
        breaks="a deleted queue doesn't come back with its older settings",
        edits=edit(
            "engine/catalog.py:Catalog._older", "range(tombstone.oldest, tombstone.version)", "range(0)"
        ),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="counts-by-age-drift",
        breaks="the counts of a queue by age are those of its ready messages",
        edits=edit(
            "engine/index.py:Index._count",
            "queue.sent.add(sent_at(stem.id), held.bit_count() - was.bit_count())",
            "queue.sent.add(sent_at(stem.id), held.bit_count())",
        ),
        caught_by=("tests/store/test_question_costs.py",),
    ),
    Mutant(
        name="published-counts-drift",
        breaks="a look at a queue tells what the last commit left there",
        edits=edit(
            "engine/index.py:Index._count",
            "self.touched[name.queue] = None",
            "self.touched.pop(name.queue, None)",
        ),
        caught_by=(_PUBLISHED,),
    ),
    Mutant(
        name="an-answered-send-is-not-published",
        breaks="a sent message is counted from the answer on",
        edits=edit("engine/index.py:Index.publish", "elif entry.held:", "elif False:"),
        caught_by=(_PUBLISHED,),
    ),
    Mutant(
        name="a-send-that-another-process-deletes-stays-published",
        breaks="a deleted message is counted no more, wherever its file was",
        edits=edit("engine/index.py:Index.appear", "self.touched[loser.name.queue] = None", "pass")
        + edit("engine/index.py:Index.disappear", "self.touched[entry.name.queue] = None", "pass"),
        caught_by=(_PUBLISHED,),
    ),
    Mutant(
        name="counts-are-published-before-a-stages-messages-are-there",
        breaks="a published stage is counted from the answer on",
        edits=edit(
            "engine/engine.py:Engine.finish",
            "self._has_answers_to_move = bool(self._ends_of_stages or self._ends_of_sets)",
            "self._has_answers_to_move = False",
        ),
        caught_by=(_PUBLISHED,),
    ),
    Mutant(
        name="bytes-of-a-queue-drift",
        breaks="the bytes of a queue are those of its messages",
        edits=edit(
            "engine/index.py:Index._count",
            "queue.bytes -= entry.batch.counted_bytes_of(was)",
            "queue.bytes -= entry.batch.counted_bytes_of(held)",
        ),
        caught_by=(_STORIES,),
    ),
    Mutant(
        name="the-order-of-leases-drifts",
        breaks="the oldest lease of a queue is known",
        edits=edit(
            "engine/index.py:EntryOrder._remove",
            "if doubles is None:\n    self.names.remove(first)",
            "if doubles is None:\n    self.names.remove(first[:-1])",
        ),
        caught_by=(_STORIES,),
    ),
    Mutant(
        name="the-number-of-hidden-entries-drifts",
        breaks="times of entries that hold nothing any more are dropped at half",
        edits=edit(
            "engine/index.py:Index._count",
            "self._hiding += bool(held) - bool(was)",
            "self._hiding += bool(held)",
        ),
        caught_by=(_STORIES,),
    ),
    Mutant(
        name="available-messages-of-groups-drift",
        breaks="a group counts what a receive could lease",
        edits=edit(
            "engine/index.py:GroupOrder._offer",
            "self.available += offered - group.offered",
            "self.available += offered",
        ),
        caught_by=("tests/proof/crash/test_group_crashes.py",),
    ),
    # Packed messages.
    Mutant(
        name="a-packed-message-is-not-found-by-its-id",
        breaks="a message that waits is found by its id",
        edits=edit("engine/index.py:Index.batch", "if id in self._packed:\n    self.unpack(id)", ""),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="another-name-of-a-packed-message-is-taken-for-another-file",
        breaks="a message is in one state, whichever process has moved it",
        edits=edit(
            "engine/index.py:Index.appear",
            "if name.stem.id in self._packed:\n    self.unpack(name.stem.id)",
            "",
        ),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-send-overtakes-the-rest-of-another",
        breaks="the messages of a queue are in the order of the requests, whatever files these need",
        edits=edit(
            "engine/sender.py:Sender._admit",
            "if begun is not None and begun[0] is not request:\n    return UNFINISHED",
            "if begun is not None and begun[0] is not request:\n    begun = None",
        ),
        caught_by=(_SLICED,),
    ),
    Mutant(
        name="a-full-queue-forgets-what-is-still-to-be-written",
        breaks="a queue holds no more messages than max_messages",
        edits=edit(
            "engine/sender.py:Sender._admit",
            "entering[request.queue] = self.written(request.queue)",
            "",
        ),
        caught_by=(_SLICED,),
    ),
    Mutant(
        name="unfinished-requests-stand-behind-those-that-came-meanwhile",
        breaks="the messages of a queue are in the order of the requests, whatever files these need",
        edits=edit(
            "committer.py:Committer._finish",
            "self._waiting[:0] = unfinished",
            "self._waiting += unfinished",
        ),
        caught_by=(_SLICED,),
    ),
    Mutant(
        name="requests-for-many-messages-have-no-bound",
        breaks="a commit does a bounded part of what is asked",
        edits=edit("engine/part.py:run_in", "if left and effort.left <= least", "if False"),
        caught_by=(_SLICED,),
    ),
    Mutant(
        name="a-small-request-overtakes-one-of-its-queue",
        breaks="requests on a queue are done in their order",
        edits=edit("engine/part.py:_few", "request.queue in queues or", ""),
        caught_by=(_SLICED,),
    ),
    Mutant(
        name="a-purge-goes-on-with-what-is-sent",
        breaks="a purge deletes what was there when it began",
        edits=edit("engine/remover.py:Remover.purge", "each[0] <= job.end", "True"),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="a-purge-looks-for-a-batch-by-its-first-message",
        breaks="a purge deletes what was there when it began",
        edits=edit(
            "engine/remover.py:Remover.purge", 'last[:-INDEX_DIGITS] + "f" * INDEX_DIGITS', "last"
        ),
        caught_by=(_BOUNDED,),
    ),
    Mutant(
        name="a-packed-lease-never-ends",
        breaks="a lease ends when its time is over",
        edits=edit("engine/index.py:Index.pack_listed", "heappush(self.hidden, (when, id))", "pass"),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-copy-ends-the-lease-of-another-file",
        breaks="a lease ends when its time is over",
        edits=edit(
            "engine/index.py:Index._count",
            "if not held and self._by_id.get(stem.id) is entry.batch:",
            "if not held and not stem.count:",
        ),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-packed-message-loses-its-group",
        breaks="messages of a group stay in its order",
        edits=edit("engine/index.py:Index._pack", "intern(batch.groups.of(0))", '""'),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="packs-what-waits-for-its-group",
        breaks="a message waits until its group is known",
        edits=edit("engine/index.py:Index._is_its_name", "and batch not in self.grouped", ""),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-packed-message-loses-its-consumer",
        breaks="a queue says which consumers hold its oldest leases",
        edits=edit("engine/index.py:Index._pack", "self._consumers[id] =", "_ ="),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-listing-packs-what-has-another-name",
        breaks="a name that was left behind holds nothing",
        edits=edit(
            "engine/index.py:Index.pack_listed",
            'id in packed or (by_id and (id in by_id or batch_of(id) + "n" in by_id))',
            "id in packed",
        ),
        caught_by=(_STORIES,),
    ),
    Mutant(
        name="groups-and-priorities-forget-what-a-start-packs",
        breaks="a message without a group or a priority is received beside others",
        edits=edit("engine/index.py:QueueIndex.extend", "self.plain.extend(ids)", "pass"),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="ids-may-fall-below-those-of-packed-messages",
        breaks="a send after a restart stands behind all that waits, though the clock went back",
        edits=edit("engine/recovery.py:_pack", "if moves.ids.rise_above(id):", "if id:"),
        caught_by=(_PACKED,),
    ),
    Mutant(
        name="a-queue-is-listed-without-its-first-schedule",
        breaks="a list of schedules has the schedules of all queues",
        edits=edit("engine/catalog.py:Catalog._keep", "self.scheduled.add(record.name)", "pass"),
        caught_by=(_SCHEDULES,),
    ),
    Mutant(
        name="windows-of-changed-queues-are-not-counted",
        breaks="a deduplication id is remembered for the longest window of a queue",
        edits=edit(
            "engine/catalog.py:Catalog._keep",
            "self.windows[record.settings.deduplication_window] += 1",
            "",
        ),
        caught_by=(_DEDUPLICATION,),
    ),
    Mutant(
        name="a-deleted-queue-stays-the-source-of-its-dead-letter-queue",
        breaks="the sources of a dead-letter queue are the queues that name it",
        edits=edit("engine/catalog.py:Catalog._drop_indexes", "sources.pop(name, None)", ""),
        caught_by=("tests/store/test_question_costs.py",),
    ),
    Mutant(
        name="keys-of-what-was-leased-as-it-was-sent-are-not-known",
        breaks="whichever process gets a deduplication id again answers with the first message",
        edits=edit(
            "engine/deduplication.py:Deduplication._load_new",
            "(known is not None and known.was_sent)",
            "known is not None",
        ),
        caught_by=(_DEDUPLICATION,),
    ),
    # Deleted files.
    Mutant(
        name="reaps-before-all-names-are-durably-gone",
        breaks="a deleted message stays deleted after a power cut",
        edits=edit("engine/entries.py:BatchFile.reapable", "self.changed > synced or", ""),
        caught_by=(_REAPER,),
    ),
    Mutant(
        name="reaps-what-another-process-has-in-new",
        breaks="a deleted message stays deleted when the process that sent it dies",
        edits=edit(
            "engine/reaper.py:Reaper.hand_over", "reapable = self._without_sent_by_others(reapable)", ""
        ),
        caught_by=(
            f"{_REAPER}::test_a_message_leased_as_it_was_sent_stays_deleted_when_its_sender_dies",
        ),
    ),
    Mutant(
        name="reaps-before-a-name-of-another-process-is-durably-gone",
        breaks="a deleted message stays deleted after a power cut",
        edits=edit("engine/index.py:Index.unknown_disappears", "batch.changed = commit", ""),
        caught_by=(f"{_REAPER}::test_a_message_leased_as_it_was_sent_stays_deleted_after_power_loss",),
    ),
    # Dead letters and redrives.
    Mutant(
        name="a-cancelled-redrive-moves-on",
        breaks="a redrive that was cancelled moves nothing more",
        edits=edit(
            "engine/redriver.py:Redriver.cancel", "self._end(drive, is_cancelled=True)", "assert drive"
        ),
        caught_by=(_REDRIVES,),
    ),
    Mutant(
        name="a-deleted-queue-is-redriven",
        breaks="a redrive of a queue that was deleted moves nothing of the queue that has its name now",
        edits=edit(
            "engine/redriver.py:Redriver._advance",
            "if record is None or record.created_at != drive.order.queue_created_at:",
            "if record is None:",
        ),
        caught_by=(_REDRIVES,),
    ),
    Mutant(
        name="a-redrive-ends-before-its-moves-are-durable",
        breaks="a redrive that is done has no moves that a power cut may undo",
        edits=edit(
            "engine/redriver.py:Redriver._advance",
            "if drive.since <= self._moves.synced and not drive.unsynced:",
            "if drive.is_through:",
        ),
        caught_by=(_REDRIVES,),
    ),
    Mutant(
        name="a-redrive-moves-what-died-after-its-start",
        breaks="a redrive moves only messages that died before it was started",
        edits=edit(
            "engine/redriver.py:Redriver._judge",
            "if order.started_at < since <= wall:\n    return None",
            "",
        ),
        caught_by=(_REDRIVES,),
    ),
    Mutant(
        name="an-older-death-is-forgotten",
        breaks="a second death is told after the first",
        edits=edit("engine/dead_letters.py:DeadLetters._death", "(*before, record)", "(record,)"),
        caught_by=(_REDRIVES,),
    ),
    Mutant(
        name="a-dead-letter-keeps-its-receives",
        breaks="the receives of a dead letter begin anew",
        edits=edit("engine/dead_letters.py:DeadLetters.bury", "receives=0,", ""),
        caught_by=(_DEATHS,),
    ),
    Mutant(
        name="a-death-has-room-in-any-name",
        breaks="a file says how a message died where a name has no room for it",
        edits=edit("engine/dead_letters.py:_fits", "<= MAX_BYTES", "<= 9_999"),
        caught_by=(_DEATHS,),
    ),
    Mutant(
        name="a-dead-letter-file-goes-too-early",
        breaks="a dead-letter file stays until it is durable that no name refers to it",
        edits=edit("engine/reaper.py:Reaper.hand_over", "if commit <= synced:", "if commit:"),
        caught_by=("tests/proof/crash/test_redrive_cuts.py",),
    ),
    Mutant(
        name="dead-letter-files-stay",
        breaks="a dead-letter file goes with the last name that refers to it",
        edits=edit(
            "engine/index.py:Index._leave_untold",
            "self.untold[dead_letter_path(batch.stem.id, file)] = commit",
            "",
        ),
        caught_by=(_DEATHS,),
    ),
    Mutant(
        name="an-archive-lists-all-of-a-file",
        breaks="an archive has the messages that have left its queue",
        edits=edit(
            "engine/archive.py:Archive.paths_of",
            "archived_name(batch.stem, members)",
            "archived_name(batch.stem, batch.stem.full)",
        ),
        caught_by=(_DEATHS,),
    ),
    # Groups.
    Mutant(
        name="a-leased-message-does-not-block-its-group",
        breaks="nothing of a strict group is leased behind what is leased or delayed",
        edits=edit("engine/index.py:_Group.end", "return self.hidden.first()", "return None"),
        caught_by=("tests/store/test_group_promises.py", "tests/store/test_killed_group_consumers.py"),
    ),
    Mutant(
        name="strict-groups-share-a-receive",
        breaks="a receive takes what it can of one strict group, then of the next",
        edits=edit("engine/index.py:GroupOrder.runs", "room if self._is_strict else", ""),
        caught_by=("tests/store/test_group_promises.py",),
    ),
    Mutant(
        name="a-strict-group-is-answered-before-its-place",
        breaks="a strict group has the order of the answered sends, whichever process answered them",
        edits=edit(
            "engine/engine.py:Engine.finish", "if work.assigned or work.ordered:", "if work.assigned:"
        ),
        caught_by=(_GROUP_ORDER, "tests/proof/crash/test_group_crashes.py"),
    ),
    Mutant(
        name="a-receive-ends-after-one-turn-of-each-group",
        breaks="a receive gets as many messages as are ready and asked for",
        edits=edit("engine/index.py:GroupOrder.runs", "vain = 0 if taken else vain + 1", "vain += 1"),
        caught_by=(_GROUPS,),
    ),
    Mutant(
        name="a-repetition-is-answered-before-its-place",
        breaks="a repeated send of a strict group is in its queue once it is answered",
        edits=edit("engine/sender.py:Sender._is_repeated", "self._order_first(id)", "pass"),
        caught_by=(_GROUP_ORDER,),
    ),
    Mutant(
        name="what-is-not-in-its-place-is-answered-as-sent",
        breaks="a send of a strict group that the disk keeps in new/ is not answered as sent",
        edits=edit("engine/sender.py:Sender.publish", "refused.append(entry)", ""),
        caught_by=(_GROUP_ORDER,),
    ),
    # Pauses.
    Mutant(
        name="a-paused-queue-takes-sends",
        breaks="a send to a queue whose sending is paused stores nothing",
        edits=edit("engine/sender.py:Sender._check", "record.require_sending()", ""),
        caught_by=(_PAUSES,),
    ),
    Mutant(
        name="a-paused-queue-takes-publications",
        breaks="a publication into a queue whose sending is paused publishes nothing",
        edits=edit("engine/stages.py:Stages.publish", "record.require_sending()", ""),
        caught_by=(_PAUSES,),
    ),
    Mutant(
        name="a-paused-queue-hands-out-what-is-just-sent",
        breaks="a queue whose receiving is paused hands out nothing, neither ready nor just sent",
        edits=edit(
            "engine/leaser.py:Leaser.pick",
            'if record.settings.receiving == "paused":\n    return []',
            "",
        ),
        caught_by=(_PAUSES,),
    ),
    Mutant(
        name="inodes-have-no-watermark",
        breaks="sends stop at the watermark of the disk's files, too",
        edits=edit(
            "files/disk.py:Space.is_below", "return few_files or self.bytes", "return self.bytes"
        ),
        caught_by=("tests/store/test_disk_watermarks.py",),
    ),
    Mutant(
        name="bytes-have-no-watermark",
        breaks="sends stop at the watermark of the disk's bytes",
        edits=edit(
            "files/disk.py:Space.is_below",
            "or self.bytes < size + max(watermark.bytes, KEPT_BYTES)",
            "",
        ),
        caught_by=("tests/store/test_disk_watermarks.py",),
    ),
    # Queues that were deleted.
    Mutant(
        name="a-wait-outlives-its-queue",
        breaks="a wait gets nothing of another queue that was made under the name",
        edits=edit(
            "engine/catalog.py:Catalog.require_same",
            "if request.queue_identity != made:",
            "if request.made is None:",
        ),
        caught_by=(_CATALOG,),
    ),
    Mutant(
        name="an-update-validates-what-it-leaves-alone",
        breaks="a queue whose dead-letter queue was deleted can be changed",
        edits=edit(
            "engine/catalog.py:Catalog.update",
            "if settings.dead_letter_queue != there.settings.dead_letter_queue:",
            "if settings.dead_letter_queue:",
        ),
        caught_by=(_CATALOG,),
    ),
    # Limits of a queue.
    Mutant(
        name="a-full-queue-takes-bytes",
        breaks="a queue holds no more bytes than max_bytes",
        edits=edit("engine/sender.py:Sender._require_room", "bytes), (1, size))", "bytes), (1, 0))"),
        caught_by=(_MODEL,),
    ),
    Mutant(
        name="sends-of-one-commit-are-not-added-up",
        breaks="sends that share a commit hold no more messages together than max_messages",
        edits=edit(
            "engine/sender.py:Sender._require_room",
            "entering[record.name] = messages + 1, bytes + size",
            "",
        ),
        caught_by=(_MODEL,),
    ),
    Mutant(
        name="a-publication-passes-the-limit",
        breaks="a publication puts no more into a queue than its limits",
        edits=edit("engine/stages.py:Stages.publish", "self._require_room(record, chunks)", ""),
        caught_by=(_STAGES,),
    ),
    # The archive.
    Mutant(
        name="the-archive-keeps-nothing",
        breaks="a queue with an archive retention keeps the files of what has left it",
        edits=edit(
            "engine/reaper.py:Reaper.hand_over",
            "kept = archived.get(entry, ())",
            "kept: Sequence[str] = ()",
        ),
        caught_by=("tests/store/test_archive.py",),
    ),
    Mutant(
        name="a-day-leaves-the-archive-at-its-end",
        breaks="a day of the archive is kept for the retention after its end",
        edits=edit("engine/archive.py:Archive._days_over", "end + retention <= wall", "end <= wall"),
        caught_by=("tests/store/test_archive.py",),
    ),
    Mutant(
        name="a-replay-sends-what-two-files-list-twice",
        breaks="a replay sends each message once",
        edits=edit("archive_reader.py:read_archive", "if message.id != last:", "if message.id:"),
        caught_by=("tests/store/test_archive.py",),
    ),
    Mutant(
        name="a-replay-compares-no-checksum-of-a-large-body",
        breaks="a replay leaves out a damaged body, whatever its size",
        edits=edit("archive_reader.py:_external_body", "for _ in pieces:\n    pass", ""),
        caught_by=("tests/cli/test_cli_large_bodies.py",),
    ),
    # Snapshots.
    Mutant(
        name="a-snapshot-reads-the-archive-before-the-bodies",
        breaks="a snapshot has the body of each archived message, though the reaper moves it meanwhile",
        edits=edit("snapshot.py:link_root", "for each in _LINKED", "for each in sorted(_LINKED)"),
        caught_by=("tests/proof/crash/test_snapshot_crashes.py",),
    ),
    Mutant(
        name="a-snapshot-links-what-is-not-adopted",
        breaks="a file that was put in by hand is adopted after a snapshot, too",
        edits=edit("snapshot.py:link_root", "_is_message if each == layout.NEW else None", "None"),
        caught_by=("tests/store/test_snapshots.py",),
    ),
    # Consumers of leases.
    Mutant(
        name="a-lease-is-since-the-first-receive",
        breaks="a consumer has its lease since its own receive, not since an earlier one",
        edits=edit(
            "engine/leaser.py:Leaser._deliver_of",
            "credits, consumer, share.lease.since, number",
            "credits, consumer, name.first, number",
        ),
        caught_by=("tests/store/test_lease_consumers.py",),
    ),
    Mutant(
        name="receives-of-one-commit-share-a-consumer",
        breaks="a lease of several receives tells which consumer has which messages",
        edits=edit(
            "engine/queue_views.py:_leases_of",
            "found.append((share.members, share.consumer, share.since))",
            "found.append((entry.held, share.consumer, share.since))",
        ),
        caught_by=("tests/store/test_lease_consumers.py",),
    ),
    Mutant(
        name="an-extended-lease-loses-its-consumer",
        breaks="an extension leaves a lease its consumer",
        edits=edit(
            "engine/index.py:Index._pass_on",
            "winner.shares += (LeaseShare(lost, lost_size, *share[2:]),)",
            'winner.shares += (LeaseShare(lost, lost_size, share.credits, "", *share[4:]),)',
        ),
        caught_by=("tests/store/test_lease_consumers.py",),
    ),
    # Queues that expire.
    Mutant(
        name="a-waiting-receive-is-no-use",
        breaks="a queue with a waiting receive doesn't expire",
        edits=edit(
            "engine/expiry.py:Expiry._is_idle",
            "if self.is_awaited(record.name) or (queue and queue.total):",
            "if queue and queue.total:",
        ),
        caught_by=(_EXPIRY,),
    ),
    Mutant(
        name="a-use-is-shown-to-no-other-process",
        breaks="a queue expires only if it is idle in all processes",
        edits=edit(
            "engine/expiry.py:Expiry._count", 'self._moves.disk.touch(f"queues/{record.name}")', ""
        ),
        caught_by=(_EXPIRY,),
    ),
    Mutant(
        name="a-send-on-its-way-is-no-use",
        breaks="a queue with a message doesn't expire, though another process has it in new/",
        edits=edit(
            "engine/expiry.py:Expiry._is_needed",
            "{name.queue for name in self._moves.names_sent()}",
            "set()",
        ),
        caught_by=(_EXPIRY,),
    ),
    Mutant(
        name="a-queue-made-anew-is-the-old-one",
        breaks="a queue that was made anew expires by its own time",
        edits=edit(
            "engine/expiry.py:Expiry._look",
            "if use is None or use.salt != record.salt:",
            "if use is None:",
        ),
        caught_by=(_EXPIRY,),
    ),
    # Prefetched messages.
    Mutant(
        name="a-prefetched-message-is-counted",
        breaks="a receive counts once the consumer begins the message",
        edits=edit("engine/leaser.py:Leaser._expire_lease", "entry.prefetched)", "0)"),
        caught_by=(_PREFETCHED,),
    ),
    Mutant(
        name="a-silent-consumer-gets-more",
        breaks="a consumer whose prefetched leases expire gets nothing new until it answers",
        edits=edit("model/credits.py:Credits.free", "self.is_silent or", ""),
        caught_by=(_PREFETCHED,),
    ),
    Mutant(
        name="a-report-after-a-silence-tells-only-its-number",
        breaks="a message whose handler outlasts its lease is counted each time",
        edits=edit("model/credits.py:Credits.report", "if self.is_silent:", "if False:"),
        caught_by=(_PREFETCHED,),
    ),
    Mutant(
        name="an-expiry-is-an-answer",
        breaks="only an answer tells that a consumer has begun more",
        edits=edit("engine/index.py:Index._pass_on", "is_answer=self.is_answer", "is_answer=True"),
        caught_by=(_PREFETCHED,),
    ),
    Mutant(
        name="what-reached-no-consumer-is-numbered",
        breaks="a report counts the messages that have reached the consumer",
        edits=edit("engine/leaser.py:Leaser.give_back", "_undeliver(entry, members)", ""),
        caught_by=(_PREFETCHED,),
    ),
    Mutant(
        name="any-process-ends-a-lease-of-a-stream",
        breaks="the process that leased a prefetched message ends its lease",
        edits=edit(
            "engine/moves.py:Moves.move", "patience = max(PATIENCE, self.margin)", "patience = 0"
        ),
        caught_by=("tests/store/test_store_processes.py",),
    ),
)
