"""Histories of several engines on one disk that broke a promise once, or seemed to."""

from __future__ import annotations

import pytest
from acts import parse_history
from shrinking import tell_any

KNOWN = {
    "a set whose commit another finished, while who had begun it was about to": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send r 4 5 0; a: reserve t r 1 3 60000; "
        "a: apply commit t 3; b: reserve s r 3 10 0"
    ),
    "ids of one that died, whose heir had told of them before another came": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; b: apply send-id q 3 5 1; open b; "
        "a: apply delete-id q 0 1; b: send-id q 2 0 2; a: receive 0 q 1 0; b: send-id q 1 0 2"
    ),
    "a send to a queue that had been deleted, in one commit with one to another queue": (
        "plot 1 any-subset syncfs strict 2 of 2; b: deafen; a: delete-queue d + update q 10000; "
        "b: send q 2 0 0 + send d 1 5 0; b: create d; open b"
    ),
    "a purge of ids by one that died, when its new folder was there and the old one lost": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id q 3 5 1; die a 4 only=1 whole; a: purge q"
    ),
    "a delete by id of one in a batch that a deaf one knows by name only": (
        "plot 1 any-subset syncfs strict 2 of 2; a: deafen; a: send d 1 5 0; b: send d 2 5 0; "
        "a: delete-id d 0 2"
    ),
    "an old receipt for one that lies in a batch which is known by name only": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send d 2 5 0; b: deafen; a: receive 0 d 2 0; "
        "b: later 30000; a: send q 1 5 0; b: delete 0 held 0 1"
    ),
    "a delete of all that one who has just come has found in a batch": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 7 5 0; a: apply receive 0 q 1 0; open b; "
        "die b 1 only=2 whole; b: delete-id q 8 6"
    ),
    "a delete of what could not be looked for": (
        "plot 1 any-subset syncfs strict 2 of 3; b: send q 2 5 10000; "
        "c: send q 2 5 10000 + send q 1 5 0; a: receive 1 q 1 0; pass 30000; c: deafen; "
        "trouble c EIO 6 1; c: delete 1 held 0 1"
    ),
    "a delete from a batch that had come through its queue, not durably": (
        "plot 1 any-subset syncfs strict 2 of 3; c: send q 2 5 0; c: apply receive 0 q 2 0; "
        "b: delete-id q 0 1; die b 0 none whole"
    ),
    "a delete of what another had deleted, not durably": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; b: receive 0 q 1 0; "
        "b: receive 1 q 1 0; a: apply delete-id q 0 1; b: delete 0 held 0 1; die b 0 none whole"
    ),
    "a batch folder that was deleted whole, after a release from it that was not durable": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send d 2 5 0; b: receive 0 d 2 0; "
        "a: apply change 0 held 0 1 0; b: delete 0 held 0 1; die a 0 none whole"
    ),
    "a delete from a batch that others had leased before it was durably published": (
        "plot 1 any-subset fsync relaxed 2 of 2; b: send q 1 5 0; a: send q 3 5 0; "
        "a: receive 0 q 9 0; die b 1 only=4 whole; b: apply delete-id q 0 1"
    ),
    "a delete of a whole batch that something had left, where nobody tells of it": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 2 5 0; a: deafen; b: receive 0 q 1 0; "
        "a: delete-id q 0 2"
    ),
    "a dead one's batch that was published before its names were durable": (
        "plot 1 any-subset fsync strict 2 of 2; a: send q 3 5 0; b: apply send q 3 5 0; "
        "die b 0 kill; b: sync; die a 18 none whole; a: tick"
    ),
    "a queue that came back with its older settings, buried by an heir": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply delete-queue q; die b 0 kill; b: sync; "
        "a: tick; a: later 2000"
    ),
    "a queue that was emptied before another's tombstone was durable": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; a: apply delete-queue q; "
        "b: tick; die b 0 none whole"
    ),
    "a message in a queue whose creation was not durable": (
        "plot 1 any-subset syncfs strict 2 of 2; a: delete-queue r; a: later 2000; "
        "a: apply create r; b: send r 1 5 0; die b 0 none whole"
    ),
    "a message in a folder that a purge had made again, not durably": (
        "plot 1 any-subset fsync relaxed 2 of 2; a: send q 3 5 0; b: receive 0 q 1 0; "
        "a: receive 0 q 1 0; b: delete 0 held 0 1; a: send q 2 5 10000; a: apply purge q; "
        "die a 0 kill; a: sync; b: send q 1 5 0; a: finish; open a; die b 2 none whole; b: tick"
    ),
    "settings that one was writing when it died": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; die a 4/half kill; "
        "a: delete-queue q; open a"
    ),
    "a queue made again whose settings an older update unlinked": (
        "plot 1 any-subset syncfs strict 2 of 3; b: apply update d 10000; c: delete-queue d; "
        "a: create d"
    ),
    "a queue made again that an older deletion emptied": (
        "plot 1 any-subset syncfs strict 2 of 2; a: apply delete-queue d; b: later 2000; "
        "b: create d; b: send d 1 5 0; a: finish"
    ),
    "a purge that was heard together with what it took": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; b: send q 3 5 0; die b 3 kill; "
        "b: apply purge q; b: sync; open b; a: tick"
    ),
    "a send that was refused because its queue could not be looked at": (
        "plot 1 any-subset syncfs strict 2 of 2; trouble b EIO 1 1; b: send q 1 5 0; open b"
    ),
    "one that came, released a message and died before the other had heard of it": (
        "plot 1 any-subset syncfs strict 2 of 2; die a 1 kill; a: send q 1 5 0; open b; "
        "b: receive 1 q 1 0; open a; a: change 1 held 0 1 0; die a 0 kill"
    ),
    "a delete by one that was not told of who has just come": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; b: receive 0 q 1 0; "
        "die b 0 all whole; b: delete-id q 0 1; b: change 0 held 0 1 60000; a: delete 0 held 0 1"
    ),
    "a receipt that one did not know, where nobody tells of it": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 1 5 0; b: tick; b: deafen; "
        "a: receive 0 q 1 0; b: delete 0 held 0 1"
    ),
    "a purge by one who had not been told of all": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send d 1 5 0; a: deafen; a: purge d"
    ),
    "one left alone that had not been told of all": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; b: receive 0 q 1 0; a: deafen; "
        "die b 0 kill; b: send q 1 5 0; a: tick + delete 0 held 0 1"
    ),
    "an empty batch folder of one that died": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send r 2 5 0; a: receive 0 r 2 0; "
        "b: later 30000; a: receive 0 r 2 0; pass 30000; a: apply receive 0 r 2 0; open b; open a"
    ),
    "a lease whose folder had moved on when it was synced, without syncfs": (
        "plot 1 any-subset fsync strict 2 of 2; a: send d 2 5 0; a: apply receive 0 d 1 0; "
        "b: receive 0 d 1 0; a: delete-queue q; die a 0 none whole"
    ),
    "a batch that was extended elsewhere, and known in part only": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0 + send q 1 5 0; b: deafen; "
        "a: receive 0 q 2 0; a: send d 1 5 0; b: tick; "
        "a: change 0 held 1 0 60000 + delete 0 held 0 1; b: delete 0 held 0 1"
    ),
    "an old receipt of what had become a dead letter elsewhere": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; a: receive 0 q 1 5000; "
        "b: later 30000; b: receive 0 q 1 0; a: change 0 held 0 1 0; b: deafen; "
        "b: delete 0 held 0 1"
    ),
    "a send by one that was not told that another has purged the queue, without syncfs": (
        "plot 1 any-subset fsync strict 2 of 2; a: send-id q 3 5 1; a: deafen; b: apply purge q; "
        "die a 4 only=2 whole; a: send q 1 5 0"
    ),
    "a set of one that died, and was lost by a clock that is fast": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id d 1 0 0; a: apply reserve s d 3 10 0; "
        "pass 29999; die a 0 kill; a: sync; die b 1 kill; b: later 2000"
    ),
    "a commit that is not answered, beside one that found nothing to reserve": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply commit s 0; die b 0 all half; "
        "a: reserve s r 2 3 30000"
    ),
    "a set that another has just committed": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send q 3 5 0; b: send q 3 5 0; "
        "a: reserve s q 0 4 0; b: reserve s q 1 9 60000; a: tick; die a 1 kill; a: apply commit s 0; "
        "b: apply confirm s 0 90000"
    ),
    "a purge by one that died, and the folder it made not durable, unheard, without syncfs": (
        "plot 1 any-subset fsync strict 2 of 2; a: send q 1 5 0; b: send q 1 5 0; b: deafen; "
        "die a 8 kill; a: purge q; b: send-id q 1 5 0; die b 2 none whole; b: tick"
    ),
    "a commit of one that died, beside another of its name that found nothing to reserve": (
        "plot 1 any-subset syncfs strict 2 of 2; die b 1 kill; b: commit t 3; open b; "
        "die a 0 all whole; b: reserve t q 0 1 60000"
    ),
    "a release by one that died, beside another of its name that has committed something": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; a: reserve t q 3 10 60000; "
        "a: apply release t 3; open a; a: commit s 0; die a 0 all whole"
    ),
    "a commit by one that died, beside another of its name that is told of it": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; die a 1 kill; "
        "a: commit t 1 + receive 0 q 1 0; open a; die b 0 all whole; "
        "a: reserve t d 1 3 60000 + create q"
    ),
    "a set of which another has deleted a message, unheard": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id q 3 5 1; b: delete-id q 0 1; a: deafen; "
        "a: reserve s q 0 9 0"
    ),
    "ids in a queue that one who died has purged, and another purges again": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id q 3 5 1; b: delete-id q 0 1; "
        "die b 1 kill; b: purge q; a: purge q; die b 0 none whole; open b"
    ),
    "an id in a deleted dead-letter queue, which was never answered": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply send-id d 1 5 0; a: apply delete-queue d; "
        "open b; die b 0 all whole; a: send-id d 2 0 1"
    ),
    "an id in a queue that is made again at the moment in which it was deleted": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply send-id d 1 5 0; open b; b: delete-queue d; "
        "a: reserve t d 1 3 30000; a: tick; die b 0 all whole; a: create d"
    ),
    "an id that was stored again by a clock that is ahead": (
        "plot 1 any-subset syncfs strict 2 of 3; c: send-id q 3 5 1; pass 30000; b: later 30000; "
        "die a 0 all whole; b: apply send-id q 3 0 0"
    ),
    "a message that comes back in a set, since its deletion was never answered": (
        "plot 1 any-subset fsync strict 2 of 2; a: send-id q 3 5 1; a: deafen; "
        "b: apply delete-id q 0 1; die a 7 none whole; a: reserve s q 0 9 0"
    ),
    "a set of one whose sync has failed, seen, and lost": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send r 1 5 0 + send q 1 5 0; "
        "a: apply reserve t r 3 3 30000; trouble a EIO 0 1; a: send q 1 5 0; open a; "
        "a: reserve s q 1 1 0; die a 0 all empty"
    ),
    "a set whose release was not durable, and committed by one who had written the marker and died": (
        "plot 1 any-subset fsync relaxed 2 of 2; a: send q 3 5 0; b: send q 3 5 0; a: reserve s q 0 4 "
        "0; b: reserve s q 1 9 60000; a: tick; b: apply release s 0; die a 1/written all whole; a: "
        "apply commit s 0"
    ),
    "a set of a batch that a deaf one leased whole, when another had taken something out of it": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send d 2 5 0; a: deafen; b: receive 0 d 1 0; die "
        "b 0 all whole; a: reserve s d 3 10 30000"
    ),
    "a set of what was left of a batch, leased by a deaf one": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id q 3 5 1; b: delete-id q 0 1; b: deafen; "
        "a: receive 0 q 1 0; die b 3 all whole; b: reserve s q 0 9 0"
    ),
    "a send into a purged queue whose folder one that died had moved away, not durably": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id q 3 5 1; b: delete-id q 0 1; die a 6 "
        "kill; a: purge q; b: send q 1 5 0; die b 0 none whole"
    ),
    "a purge, when one that died had sent something that was in no queue yet": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply send-id d 1 60 1; open b; "
        "b: send-id d 3 5 0; b: purge d"
    ),
    "a set that one releases and another commits at once": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send d 1 5 0; b: reserve s d 1 1 0; b: apply "
        "release s 1; a: commit s 1; die a 0 all whole"
    ),
    "a set that is committed and released in one commit": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; b: reserve s q 0 1 0; die b 0 all "
        "whole; a: apply commit s 0 + release s 0"
    ),
    "a queue that was deleted when one that died had changed it, and left the older settings": (
        "plot 1 any-subset syncfs strict 2 of 3; c: send q 1 5 0; die b 0 kill; b: receive 0 q 1 0; "
        "die a 1 kill; a: update d 60000; c: later 2000; c: delete-queue d"
    ),
    "a set that one whose clock was ahead noted as lost, and died": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send d 1 5 0; a: reserve t d 3 1 30000; pass "
        "29999; die a 0 kill; a: commit s 1; die b 4 kill; open b"
    ),
    "a release that was answered after a commit that came after it": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send q 1 5 0; a: reserve s q 0 4 0; a: apply "
        "release s 0; b: commit s 0; die a 2 all whole; a: finish"
    ),
    "a set that a start noted as lost by a clock that was ahead": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send-id r 1 0 2; open b; a: tick; die a 2 kill; "
        "a: reserve t r 2 1 0; pass 29999; b: reserve s q 1 3 60000; die b 0 kill"
    ),
    "an id of a message that was leased as it was written, and whose file nobody had synced": (
        "plot 1 any-subset fsync strict 2 of 3; b: apply send-id d 1 5 0 + receive 0 d 1 0; die a 0 "
        "all zeros; c: send-id d 1 60 0"
    ),
    "an old receipt of what was redriven by one that died after the other's last look": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id d 3 5 0 + receive 0 d 3 0; open a; "
        "a: later 30000; a: later 2000; a: redrive d q 0; die a 0 kill; a: send q 1 5 0; "
        "b: delete 0 held 0 1"
    ),
    "a purge of a message whose sender has no answer yet, when its repetition has one": (
        "plot 1 any-subset syncfs strict 2 of 3; b: apply send-id d 3 5 3; c: send-id d 3 0 0; "
        "a: purge d"
    ),
    "an id whose message another could not make durable, and lives": (
        "plot 1 any-subset syncfs strict 2 of 2; a: apply send-id d 1 0 1 + send q 1 5 0; "
        "trouble a ENOSPC 0 1; a: lose; open b; b: send-id d 2 60 1"
    ),
    "an id that was stored anew, since another could not make its message durable": (
        "plot 1 any-subset syncfs strict 2 of 2; a: apply send-id d 1 0 1 + send q 1 5 0; "
        "trouble a ENOSPC 0 1; a: lose; open b; b: send-id d 2 60 1; b: send-id d 2 5 1"
    ),
    "a history that came back before its message did, which had not died yet": (
        "plot 1 any-subset syncfs strict 2 of 2; a: receive 0 q 2 0 + send q 1 5 0 + send q 1 5 0; "
        "pass 1; pass 29999; a: receive 0 q 1 0; b: later 2000; pass 29999; die a 1 kill; "
        "a: delete 0 held 0 1; die b 9 only=1 whole; b: reserve s q 0 3 60000 + redrive d - 0"
    ),
    "an id that is stored again after its window, before the first one is answered": (
        "plot 1 any-subset syncfs strict 2 of 3; c: apply send-id q 1 60 0; pass 29999; pass 29999; "
        "pass 30000; a: send-id q 2 0 0"
    ),
    "an id of what one that died had sent, taken over and purged in one step": (
        "plot 1 any-subset syncfs strict 2 of 2; b: apply send-id d 1 60 3; open b; die b 8 all whole; "
        "b: purge d"
    ),
    "a repetition that is answered late, of an id that was stored again since": (
        "plot 1 any-subset syncfs strict 2 of 3; b: send-id q 1 0 0; c: apply send-id q 3 5 2; "
        "pass 45000; pass 45000; a: send-id q 1 5 0"
    ),
    "a repetition of what another could not write, between the look at it and the sync": (
        "plot 1 any-subset syncfs strict 2 of 2; b: send-id q 1 5 3; a: send-id q 1 5 2; b: heed; "
        "a: apply send-id d 3 5 0; trouble a EIO 0 1; b: apply send-id d 3 5 0; a: sync; b: sync; "
        "b: finish; die b 0 none empty; b: tick"
    ),
    "a batch that is released whole, of which another has just extended one, unheard": (
        "plot 1 any-subset syncfs strict 2 of 2; a: send-id r 3 5 0 + receive 0 r 3 0; b: deafen; "
        "a: change 0 held 0 1 60000; b: change 0 held 0 0 0"
    ),
    "a lease of what was just sent, that could not be made good, seen by another and undone": (
        "plot 1 any-subset syncfs strict 2 of 2; a: apply send d 2 5 0 + receive 0 d 2 0; "
        "trouble a EIO 1 1"
    ),
}


@pytest.mark.parametrize("history", KNOWN.values(), ids=KNOWN)
def test_what_broke_a_promise_between_processes_once_breaks_none_any_more(history: str) -> None:
    told = parse_history(history)
    assert str(told) == history
    tell_any(told)
