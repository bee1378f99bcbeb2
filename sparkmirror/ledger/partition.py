"""One attempt at one partition, from the task's side: what may be sent, what a response proves, what a receipt may hold.

No I/O and no clock: the relay feeds it outgoing batches, responses and the time.

Invariants (protocol.md C; the code asserts them by number)
 4  no blind resend     after any doubt nothing is sent until `resume` was called with what the settled log holds
 4b fixed numbering     a record keeps its sequence number for the whole attempt
 5  chain               a success proves something only if its base offset is the expected one
 6  proof               `proven` moves only by a success in chain, or by a settled read
 7  sum                 records proven = sequence distance = sum of run lengths
 8  quiet close         `close_position` is given only with an empty window and no doubt
 9  newest wins         once LEFT, nothing is sent and nothing is written, not even a receipt
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from sparkmirror.ledger.answers import Expect, expectation
from sparkmirror.ledger.records import SEQUENCE_MODULUS, Open, Position, Receipt
from sparkmirror.ledger.runs import Run
from sparkmirror.wire.error_codes import OUT_OF_ORDER_SEQUENCE_NUMBER

# One receipt holds at most this many runs, each of them some 10 bytes: the newest block is written again every second.
RUNS_PER_BLOCK = 250
# After this long without sending, the broker may have forgotten us: the next batch goes alone (L2 iv).
IDLE_REARM_S = 60.0
# Unreceipted data is bounded, so that a dead ledger cannot make an endless tail to be read by the successor (O15).
UNRECEIPTED_BYTES_MAX = 64 << 20
UNRECEIPTED_S_MAX = 30.0


class Phase(Enum):
    """The phase of an attempt."""

    OPENING = "opening"  # started is not acked, or the log was not looked at yet
    FLOWING = "copying"
    DRAINING = "draining"  # doubt: nothing more is sent until every batch in flight is answered
    SETTLING = "settling"  # everything is answered or lost: the settled log must be read
    STOPPED = "stopped"
    CLOSED = "closed"
    LEFT = "left"  # another attempt counts now


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why sending stopped: the first error's code and text, and what is expected of the log."""

    error: int
    message: str
    expect: Expect


@dataclass(slots=True)
class Sent:
    """A batch in flight."""

    sequence: int
    count: int
    downstream: int
    pieces: tuple[tuple[int, int], ...]
    next_upstream: int
    size: int
    leader_epoch: int
    newest_timestamp: int
    read_ms: int
    answered: bool = False
    appended: bool = False


def extend_runs(runs: list[Run], upstream: int, downstream: int, length: int) -> None:
    """Adds a run, joining it to the last one when the difference is the same and nothing lies between."""
    if runs:
        last = runs[-1]
        if last.upstream + last.length == upstream and last.downstream + last.length == downstream:
            runs[-1] = Run(last.upstream, last.downstream, last.length + length)
            return
    runs.append(Run(upstream, downstream, length))


class PartitionCopy:
    """The state of one attempt."""

    def __init__(self, order: Open, now: float) -> None:
        self.order = order
        self.phase = Phase.OPENING
        self.doubt: Doubt | None = None
        self.proven = order.position
        self.next = order.position  # what the next batch will be given
        self.read_from = order.position.upstream
        self.window: deque[Sent] = deque()
        self.window_bytes = 0
        self.armed = False
        self.records = 0
        self.record_bytes = 0
        self.source_leader_epoch = order.source_leader_epoch
        self.newest_timestamp = -1
        self.read_ms = -1
        self.source_end = -1
        self._runs: list[Run] = []
        self._closing = False
        self._out_of_order_at: Position | None = None
        self._may_land_until = order.position.upstream
        self._sent_at = now
        self._receipted = order.position
        self._receipted_bytes = 0
        self._dirty_since: float | None = None

    # --- sending -----------------------------------------------------------------------------------------------

    def may_send(self, now: float) -> bool:
        """Whether a batch may go out now."""
        if self.phase is not Phase.FLOWING:
            return False
        if not self.armed or (now - self._sent_at > IDLE_REARM_S):
            return not self.window  # the first batch goes alone (L1, L2 iv)
        return not self.is_unreceipted(now)

    def is_unreceipted(self, now: float) -> bool:
        """Whether so much proven data waits for a receipt that copying must pause (O15)."""
        if self.record_bytes - self._receipted_bytes > UNRECEIPTED_BYTES_MAX:
            return True
        return self._dirty_since is not None and now - self._dirty_since > UNRECEIPTED_S_MAX

    @property
    def wants_receipt(self) -> bool:
        """Whether a receipt is due by bytes, early enough that copying does not pause for it."""
        return self.record_bytes - self._receipted_bytes > UNRECEIPTED_BYTES_MAX // 4

    def send(
        self,
        count: int,
        pieces: tuple[tuple[int, int], ...],
        next_upstream: int,
        size: int,
        leader_epoch: int,
        newest_timestamp: int,
        now: float,
        read_ms: int = -1,
    ) -> Sent:
        """Registers a batch, read from the source at `read_ms`, as in flight; what comes back carries its base sequence."""
        assert self.phase is Phase.FLOWING, "invariant 4: sent in doubt"
        if now - self._sent_at > IDLE_REARM_S:
            self.armed = False
        upstream, downstream, sequence = self.next
        assert pieces[0][0] >= upstream, "L13: a batch reaches below the position"
        sent = Sent(sequence, count, downstream, pieces, next_upstream, size, leader_epoch, newest_timestamp, read_ms)
        self.window.append(sent)
        self.window_bytes += size
        self.next = Position(next_upstream, downstream + count, (sequence + count) % SEQUENCE_MODULUS)
        self._sent_at = now
        return sent

    def skip_to(self, upstream: int, now: float) -> None:
        """Accounts for upstream offsets that hold nothing to copy (markers, aborted records, compacted ranges)."""
        if upstream <= self.next.upstream or self.phase is not Phase.FLOWING:
            return
        self.next = self.next._replace(upstream=upstream)
        if self.window:
            self.window[-1].next_upstream = upstream
        else:
            self.proven = self.proven._replace(upstream=upstream)
            self._dirty(now)

    # --- answers -----------------------------------------------------------------------------------------------

    def answer(self, sent: Sent, *, error: int, base_offset: int, message: str, now: float) -> None:
        """The broker's verdict on one batch in flight."""
        if self.phase not in (Phase.FLOWING, Phase.DRAINING) or sent.answered:
            return
        sent.answered = True
        if error == 0 and base_offset == sent.downstream and not self._follows_refused(sent):
            self._prove_through(sent, now)
        elif error == 0:
            self._enter_doubt(Doubt(0, f"landed at {base_offset}, expected {sent.downstream}", Expect.RESUME))
        else:
            sent.appended = base_offset >= 0
            self._enter_doubt(Doubt(error, message, self._expected(error)))
        self._settle_if_drained()

    def _expected(self, error: int) -> Expect:
        """The code's meaning; or the same lone batch out of sequence again, where the log ends: the broker's state is not
        the log's (R2: a zombie re-created it after it was forgotten). Only a fence mends that, not another try.
        """
        if error != OUT_OF_ORDER_SEQUENCE_NUMBER or self.armed or self.doubt is not None:
            return expectation(error)
        is_again, self._out_of_order_at = self._out_of_order_at == self.proven, self.proven
        return Expect.FENCED if is_again else Expect.RESUME

    def connection_lost(self, reason: str) -> None:
        """The connection broke: whatever was in flight is unknown."""
        if self.phase not in (Phase.FLOWING, Phase.DRAINING):
            return
        if not self.window and self.phase is Phase.FLOWING:
            self.armed = False  # a new connection; nothing of ours is on its way
            return
        if not all(sent.answered for sent in self.window):
            self._may_land_until = max(self._may_land_until, self.next.upstream)
        self._enter_doubt(Doubt(-1, reason, Expect.RESUME))
        self.phase = Phase.SETTLING

    def _enter_doubt(self, doubt: Doubt) -> None:
        # The first error names the cause; what follows it in the same window is its echo (a cascade of 45).
        if self.doubt is None or (self.doubt.expect is Expect.RESUME and doubt.expect is Expect.FENCED):
            self.doubt = doubt
        if self.phase is Phase.FLOWING:
            self.phase = Phase.DRAINING

    def _settle_if_drained(self) -> None:
        if self.phase is Phase.DRAINING and all(sent.answered for sent in self.window):
            self.phase = Phase.SETTLING

    def _follows_refused(self, sent: Sent) -> bool:
        """Whether an earlier batch was refused: what lies at its place is then not what we sent, whatever the base says."""
        return any(s.answered and not s.appended for s in takewhile(lambda s: s is not sent, self.window))

    def _prove_through(self, sent: Sent, now: float) -> None:
        """A success in chain proves its batch and every earlier one in the same log (L4)."""
        window = self.window
        while window:
            done = window.popleft()
            self._prove(done)
            if done is sent:
                break
        self.armed = True
        self._dirty(now)

    def _prove(self, sent: Sent) -> None:
        assert sent.downstream == self.proven.downstream, "invariant 5: chain"
        downstream = sent.downstream
        for upstream, length in sent.pieces:
            extend_runs(self._runs, upstream, downstream, length)
            downstream += length
        assert downstream - sent.downstream == sent.count, "invariant 7: sum"
        self.proven = Position(sent.next_upstream, downstream, (sent.sequence + sent.count) % SEQUENCE_MODULUS)
        self.records += sent.count
        self.record_bytes += sent.size
        self.window_bytes -= sent.size
        self.source_leader_epoch = sent.leader_epoch
        if sent.newest_timestamp >= self.newest_timestamp:
            self.newest_timestamp, self.read_ms = sent.newest_timestamp, sent.read_ms

    def _dirty(self, now: float) -> None:
        if self._dirty_since is None:
            self._dirty_since = now

    # --- after the log was read --------------------------------------------------------------------------------

    def resume(self, at: Position, runs: list[Run], now: float, source_leader_epoch: int = -1) -> None:
        """The settled log holds everything up to `at`, of the source's records up to this leader epoch: resumes there."""
        assert self.phase in (Phase.OPENING, Phase.SETTLING)
        for run in runs:
            extend_runs(self._runs, *run)
        self.records += sum(run.length for run in runs)
        if at != self.proven:
            self._dirty(now)
        self.proven = self.next = at
        self.source_leader_epoch = max(self.source_leader_epoch, source_leader_epoch)
        self.read_from = at.upstream
        for sent in self.window:
            sent.answered = True  # an answer that still comes must not prove what is sent from now on
        self.window.clear()
        self.window_bytes = 0
        self.armed = self.phase is Phase.OPENING and self.order.fenced and at.downstream == self.order.position.downstream
        self.doubt = None
        self.phase = Phase.FLOWING

    def end(self, phase: Phase) -> None:
        """The attempt is over: STOPPED for the reason in its state, CLOSED in the ledger, or LEFT to a newer one."""
        assert phase in (Phase.STOPPED, Phase.CLOSED, Phase.LEFT)
        self.phase = phase

    # --- receipts and closing ----------------------------------------------------------------------------------

    def receipt(self) -> Receipt | None:
        """What may be written now, or None if nothing new is proven."""
        is_final = self.closing and self.is_quiet
        is_new = self.proven != self._receipted or (is_final and self._runs)
        if self.phase in (Phase.LEFT, Phase.CLOSED) or not is_new:
            return None
        runs = tuple(self._runs)
        if len(runs) > RUNS_PER_BLOCK:
            del self._runs[:-1]  # the next receipt begins a new block with the run that may still grow
        return Receipt(
            self.order.partition,
            self.order.attempt,
            self.proven,
            self.source_leader_epoch,
            self.records,
            self.record_bytes,
            runs,
            self.source_end,
            self.newest_timestamp,
            is_final,
            self.read_ms,
        )

    def receipt_acked(self, receipt: Receipt, now: float) -> None:
        """The ledger has it."""
        if receipt.position.upstream >= self._receipted.upstream:
            self._receipted = receipt.position
            self._receipted_bytes = receipt.record_bytes
        self._dirty_since = now if self.proven != self._receipted else None

    @property
    def may_land_late(self) -> bool:
        """Whether a batch that the settled log did not hold may still be on its way in a broken connection.

        Until the same records were sent again and proven, only the sequence numbers of this attempt keep it out: closed
        would let a new owner start without a fence, and the old bytes could land before its first batch (C1, D2).
        """
        return self.proven.upstream < self._may_land_until

    def _is_closing(self) -> bool:
        return self._closing and not self.may_land_late

    def _want_closing(self, wanted: bool) -> None:
        self._closing = wanted

    closing = property(_is_closing, _want_closing, doc="Whether the attempt ends now; what may land late is copied first.")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight or in doubt."""
        return self.phase is Phase.FLOWING and not self.window and not self.may_land_late

    @property
    def close_position(self) -> Position | None:
        """The end position of the closed record, or None while it may not be written."""
        if not self.is_quiet:
            return None
        assert self.proven == self.next, "invariant 8: quiet close"
        return self.proven
