"""Leases: a receive hides messages until they are due, and an extension hides them longer.

The lease is the name: a due time, after which the message is ready again at its old place, and a
random token that only the receiver knows. So a receipt of an older lease can't touch a message that
was leased again, and a restart finds every lease as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from ..files import layout
from ..index.hidden import Hidden
from ..index.ready import BatchFolder, Place, Ready
from ..model.clock import Millis
from ..model.credits import Credits
from ..model.errors import InvalidRequest, StaleReceipt, StoreError
from ..model.ids import sent_at
from ..model.names import id_of, leased, length_of, make_set_token, moved_out, parse_entry
from ..model.operations import ChangeVisibility, GiveBack, Message, Receive
from ..model.transitions import Move, State
from . import receipts
from .arrivals import Arrivals
from .catalog import Catalog
from .delivery import Delivery
from .letters import Letters
from .live import Live
from .peers import Peers
from .remover import Remover
from .requeuer import Requeuer
from .root import Root, item_of, path_in, place_of_ready
from .terms import Terms, check_visibility, give_credits_back, visibility_of

WHOLE_LEASES: Final = 2
"""After so many leases of a whole batch folder its messages are leased singly: a poisonous one among
them must not use up its neighbours' receives."""
MOST_PASSED_OVER: Final = 1_000
"""So many old or dead messages are put away by one receive before it lets others work."""
HARDLY_OLDER: Final = Millis(100)
"""What was sent to one process may be delivered before what another was sent so long before."""
OWN_AMONG: Final = 8
"""And among so many of the oldest singles and batch folders it is looked for."""

Ends = list[Millis | StoreError | None]
_Together = dict[tuple[Hidden, Millis], dict[str, list[int]]]
"""By lease and its new length, the entries that are meant and where in the request they are named."""


class Leaser:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        letters: Letters,
        remover: Remover,
        requeuer: Requeuer,
        peers: Peers,
        arrivals: Arrivals,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._letters = letters
        self._remover = remover
        self._requeuer = requeuer
        self._delivery = Delivery(root, requeuer)
        self._peers = peers
        self._arrivals = arrivals

    def receive(self, request: Receive) -> list[Message]:
        """Lease what is next; empty if nothing is ready, or no credit is free."""
        live = self._catalog.require(request.queue)
        visibility = visibility_of(request, live)
        room = request.max_messages
        if room < 1:
            raise InvalidRequest(what="max_messages", value=room, rule="must be at least 1")
        if request.credits is not None:
            room = min(room, request.credits.free)
        taken: list[Message] = []

        def deliver(hidden: Hidden) -> int:
            messages = self._delivery.read(live, hidden)
            taken.extend(messages)
            return len(messages)

        terms = self._terms(visibility, request.credits)
        bytes_left = self._take(live, room, request.max_bytes, terms, deliver)
        self._arrivals.lease(live, taken, room - len(taken), bytes_left, terms)
        taken.sort(key=lambda message: message.id)
        return taken

    def lease_set(self, live: Live, room: int, bytes: int, terms: Terms) -> list[Hidden]:
        """Lease up to `room` messages of together up to `bytes`, but at least one, and read none."""
        taken: list[Hidden] = []

        def keep(hidden: Hidden) -> int:
            self._delivery.confirm(live, hidden)
            if hidden.names:
                taken.append(hidden)
            return len(hidden.names)

        self._take(live, room, bytes, terms, keep)
        return taken

    def _take(
        self, live: Live, room: int, bytes_left: int, terms: Terms, take: Callable[[Hidden], int]
    ) -> int:
        """Lease what is next, and let `take` have it, which says how many messages it could use.

        Answers how much of `bytes_left` is left. A `StoreError` is raised only if nothing was taken.
        """
        ready = self._root.index.queues[live.name].ready
        taken = passed_over = 0
        lost = self._root.lost_races
        while room > taken and passed_over < MOST_PASSED_OVER:
            head = self._own(ready)
            if head is None:
                self._peers.contents.look_ahead(live.name)
                head = self._next(ready)
            if head is None:
                break
            name, folder = head
            size = length_of(name)
            if taken and size > bytes_left:
                break
            try:
                if self._is_over(live, name, folder):
                    passed_over += 1
                    continue
                if (
                    folder is not None
                    and folder.batch.receives < WHOLE_LEASES
                    and self._fits(ready, folder, room - taken, bytes_left)
                ):
                    size = folder.bytes
                    hidden = self._lease_folder(live, folder, terms)
                else:
                    hidden = self._lease_single(live, name, folder, terms)
                count = 0 if hidden is None else take(hidden)
            except StoreError:
                if taken:
                    break  # What was leased goes out; the next receive will meet the error again.
                raise
            if not count and self._root.lost_races > lost:
                # Whoever was faster has mostly gone on to what comes next here, too.
                lost = self._root.lost_races
                self._peers.listen()
                if self._catalog.queues.get(live.name) is not live:
                    break
                ready = self._root.index.queues[live.name].ready
                continue
            taken += count
            bytes_left -= size
        return bytes_left

    def _own(self, ready: Ready) -> Place | None:
        """What was sent to this process, if hardly anything is older: the others go for their own, and
        it is read from memory."""
        oldest = ready.oldest_id()
        if oldest is None or self._root.choice > 1 or not self._root.is_shared:
            return None
        latest = sent_at(oldest) + HARDLY_OLDER
        for name, folder in ready.heads(OWN_AMONG):
            if sent_at(id_of(name)) > latest:
                break
            if self._root.recent.holds(id_of(name)):
                return name, folder
        return None

    def _next(self, ready: Ready) -> Place | None:
        """What to lease: the oldest, or with peers one of the oldest."""
        if self._root.choice == 1:
            return ready.head()
        heads = ready.heads(self._root.choice)
        return self._root.random.choice(heads) if heads else None

    def _fits(self, ready: Ready, folder: BatchFolder, room: int, bytes: int) -> bool:
        """Whether the folder may be leased whole. With a choice, or others, no order is exact."""
        if self._root.choice == 1 and not self._root.is_shared:
            return ready.is_apart(folder, room, bytes)
        return len(folder) <= room and folder.bytes <= bytes

    def change(self, request: ChangeVisibility) -> Ends:
        """Extend or release; leases of one batch folder that get the same end move as one."""
        live = self._catalog.require(request.queue)
        self._look_for(live, [change.receipt for change in request.changes])
        index = self._root.index.queues[live.name]
        results: Ends = [None] * len(request.changes)
        together: _Together = {}
        wanted: dict[str, Millis] = {}
        for at, change in enumerate(request.changes):
            try:
                check_visibility(change.visibility, least=0)
                receipt = receipts.parse(live.name, change.receipt)
                if wanted.get(receipt.id, change.visibility) != change.visibility:
                    # One message twice: what was asked first must be done before its lease is looked
                    # up again, or the second would hit whatever else lies in the same folder.
                    self._change_together(live, together, results)
                    together, wanted = {}, {}
                hidden, name = receipts.find_lease(index, receipt)
            except StoreError as error:
                results[at] = error
                continue
            wanted[receipt.id] = change.visibility
            names = together.setdefault((hidden, change.visibility), {})
            names.setdefault(name, []).append(at)
        self._change_together(live, together, results)
        self._change_again(live, request, results)
        give_credits_back(index, request, results)
        return results

    def _change_together(self, live: Live, together: _Together, results: Ends) -> None:
        for (hidden, visibility), places in together.items():
            for names in self._moving_at_once(hidden, list(places), visibility):
                try:
                    ends: Ends = self._end_at(live, hidden, names, visibility)
                except StoreError as error:
                    ends = [error] * len(names)
                for name, end in zip(names, ends, strict=True):
                    for at in places[name]:
                        results[at] = end

    def _moving_at_once(self, hidden: Hidden, names: list[str], visibility: Millis) -> list[list[str]]:
        """What moves with one rename, and so can't fail in part."""
        is_whole = len(names) == len(hidden.names) and (visibility > 0 or not self._root.is_shared)
        return [names] if is_whole else [[name] for name in names]

    def _change_again(self, live: Live, request: ChangeVisibility, results: Ends) -> None:
        """Others may have moved leases while they were changed: look for those once more."""
        again = [at for at, result in enumerate(results) if isinstance(result, StaleReceipt)]
        if not again or not self._root.is_shared:
            return
        self._look_for(live, [request.changes[at].receipt for at in again])
        for at in again:
            change = request.changes[at]
            try:
                receipt = receipts.parse(live.name, change.receipt)
                hidden, name = receipts.find_lease(self._root.index.queues[live.name], receipt)
                (results[at],) = self._end_at(live, hidden, [name], change.visibility)
            except StoreError as error:
                results[at] = error

    def _look_for(self, live: Live, texts: Sequence[str]) -> None:
        """Find out where the leases are, if others may have moved them from where they are believed.

        All of it before any is found for good: looking changes what is known.
        """
        if not self._root.is_shared:
            return
        for text in texts:
            try:
                receipt = receipts.parse(live.name, text)
                receipts.find_lease(self._root.index.queues[live.name], receipt)
            except StaleReceipt:
                self._peers.seek(live.name, receipt.id)
            except StoreError:
                continue  # It is told so later.

    def give_back(self, request: GiveBack) -> None:
        """Undo leases that no consumer saw; one that is over already is what was wanted."""
        live = self._catalog.require(request.queue)
        left = self._give_back(live, request.receipts)
        if left and self._root.is_shared:
            self._give_back(live, left)  # Others have moved them meanwhile.

    def _give_back(self, live: Live, texts: Sequence[str]) -> list[str]:
        """The receipts of what isn't where it was believed to be."""
        self._look_for(live, texts)
        index = self._root.index.queues[live.name]
        together: dict[Hidden, dict[str, str]] = {}
        for text in texts:
            try:
                hidden, name = receipts.find_lease(index, receipts.parse(live.name, text))
            except StaleReceipt:
                continue
            together.setdefault(hidden, {})[name] = text
        left: list[str] = []
        for hidden, names in together.items():
            if not self._requeuer.requeue(live, hidden, list(names), undo=True):
                left += names.values()
        return left

    def _is_over(self, live: Live, name: str, folder: BatchFolder | None) -> bool:
        """Whether the head of the queue had to leave it undelivered: too old, or a dead letter."""
        if self._remover.is_expired(live, id_of(name)):
            self._remover.expire(live.name, name, folder)
            return True
        return self._letters.bury_ready(live, name, folder)

    def _lease_single(
        self,
        live: Live,
        name: str,
        folder: BatchFolder | None,
        terms: Terms,
    ) -> Hidden | None:
        root, queue = self._root, live.name
        index = root.index.queues[queue]
        entry = parse_entry(name)
        if folder is not None:
            entry = moved_out(entry, folder.batch)
        hidden = terms.lease(str(leased(entry, root.clock.wall())))
        source = place_of_ready(queue, name, folder)
        moved = root.folders.move(
            Move.LEASE, State.READY, source, State.LEASED, root.path_of(queue, hidden)
        )
        index.ready.remove(name, folder)
        if folder is not None and not folder.names:
            root.drop_after_sync(layout.ready(queue, folder.batch))
        if not moved:
            root.lost_races += 1
            root.was_faster(source)
            if folder is not None:
                index.ready.doubt(folder)  # It may be the folder that has gone, with all that is in it.
            return None
        root.index.hide(queue, hidden)
        return hidden

    def _lease_folder(self, live: Live, folder: BatchFolder, terms: Terms) -> Hidden | None:
        root, queue = self._root, live.name
        index = root.index.queues[queue]
        after = leased(folder.batch, root.clock.wall())
        hidden = terms.lease(folder)
        source = layout.ready(queue, folder.batch)
        target = layout.hidden(queue, after, hidden.due, hidden.token)
        moved = root.folders.move(Move.LEASE, State.READY, source, State.LEASED, target, is_folder=True)
        index.ready.remove_folder(folder)
        if not moved:
            root.lost_races += 1
            root.was_faster(source)
            return None
        folder.batch = after
        root.index.hide(queue, hidden)
        return hidden

    def terms(self, hold: Millis) -> Terms:
        """Those of a set: its leases share one token, and end together."""
        return Terms(self._root, hold, None, make_set_token(self._root.random))

    def _terms(self, visibility: Millis, credits: Credits | None) -> Terms:
        return Terms(self._root, visibility, credits, None)

    def move_end(self, queue: str, hidden: Hidden, due: Millis, due_monotonic: Millis) -> bool:
        """Let a whole lease end at another time; False if it isn't there any more."""
        root = self._root
        source = root.path_of(queue, hidden)
        target = layout.hidden(queue, item_of(hidden.item), due, hidden.token)
        if not root.folders.extend(source, target, is_folder=hidden.is_folder):
            return False
        hidden.due, hidden.due_monotonic = due, due_monotonic
        root.index.reschedule(queue, hidden)
        return True

    def _end_at(self, live: Live, hidden: Hidden, names: list[str], visibility: Millis) -> Ends:
        """Let the lease on `names`, all of it or one, end so long after now: for each its end, None for
        a release."""
        if visibility == 0:
            released = self._requeuer.release(live, hidden, names)
            return [None if name in released else StaleReceipt(id=id_of(name)) for name in names]
        root, queue = self._root, live.name
        due, due_monotonic = root.due_after(visibility)
        if len(names) == len(hidden.names):
            if not self.move_end(queue, hidden, due, due_monotonic):
                self._lost(queue, hidden, names)
            return self._moved(queue, hidden, names, due)
        assert isinstance(hidden.item, BatchFolder)
        (name,) = names
        alone = Hidden(
            str(moved_out(parse_entry(name), hidden.item.batch)),
            due=due,
            due_monotonic=due_monotonic,
            token=hidden.token,
            credits=hidden.credits,
        )
        source = path_in(root.path_of(queue, hidden), name)
        if not root.folders.extend(source, root.path_of(queue, alone), is_folder=False):
            self._lost(queue, hidden, [name])
        root.index.queues[queue].split(hidden, name, alone)
        root.index.reschedule(queue, alone)
        return [due]

    def _moved(self, queue: str, hidden: Hidden, names: list[str], due: Millis) -> Ends:
        """`due` for what is under the lease still: others may have taken something out, unheard."""
        if not self._root.is_shared or not hidden.is_folder:
            return [due] * len(names)
        found = self._root.folders.scan(self._root.path_of(queue, hidden))
        there = {each.name for each in found}
        gone = [name for name in names if name not in there]
        for name in gone:
            self._requeuer.forget(queue, hidden, name)
        return [due if name in there else StaleReceipt(id=id_of(name)) for name in names]

    def _lost(self, queue: str, hidden: Hidden, names: list[str]) -> NoReturn:
        """Somebody took the files away: there is no lease any more."""
        self._root.was_faster(self._root.path_of(queue, hidden))
        for name in list(names):
            self._requeuer.forget(queue, hidden, name)
        raise StaleReceipt(id=id_of(names[0]))
