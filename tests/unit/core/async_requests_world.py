"""A caller of `AsyncRequests` that knows the rules, and checks them after every move."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.async_requests import REPLACEMENT, Again, AsyncRequests, Request, Rules
from headgate.core.async_results import Border

Move = tuple[str, int]
"""What happens, and to which of the candidates."""

WATERMARK = "watermark"


@dataclass
class World:
    """Records 1, 2, ... and borders go in; everything that comes out is checked.

    Attributes:
        rules: of the machine.
        records: how many records there are.
        borders: before which records a border goes in.
    """

    rules: Rules
    records: int
    borders: frozenset[int] = frozenset()
    now: int = 0
    entered: list[int | str] = field(default_factory=list)
    left: list[int | str] = field(default_factory=list)
    running: dict[int, int] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    admitted_at: dict[int, int] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    failed_at: dict[int, int] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    dead: bool = False

    def __post_init__(self) -> None:
        self.machine: AsyncRequests[int] = AsyncRequests(self.rules)

    def moves(self) -> list[Move]:
        """Everything that may happen now."""
        if self.dead:
            return []
        found: list[Move] = []
        if len(self.admitted_at) < self.records and not self.machine.full and not self.machine.sealed:
            found.append(("admit", len(self.admitted_at) + 1))
        for record in sorted(self.running):
            found += [("answer", record), ("raise", record), ("late", record)]
            if self.running[record] != REPLACEMENT:
                found.append(("wrong", record))
        if (due := self.machine.due()) is not None and due >= self.now:
            found.append(("time", due))
        if self.machine.ready:
            found.append(("take", 0))
        return found

    def make(self, move: Move) -> None:
        """Let one thing happen."""
        what, which = move
        match what:
            case "admit":
                self._admit(which)
            case "answer" | "wrong":
                self._answer(which, wrong=what == "wrong")
            case "raise":
                self._raise(which)
            case "late":  # an answer of an earlier attempt
                before = self.machine.ready, self.machine.due()
                self.machine.answered(which, self.running[which] + 1, ["late"], self.now)
                assert (self.machine.ready, self.machine.due()) == before
            case "time":
                self._time(which)
            case "take":
                self._take()
        self.check()

    def _admit(self, record: int) -> None:
        if record in self.borders:
            self.entered.append(f"border {record}")
            self.machine.border(Border(f"border {record}"))
        request = self.machine.admit(record, self.now)
        assert request.number == record
        assert request.attempt == 1
        self.entered.append(record)
        self.admitted_at[record] = self.now
        self.running[record], self.tries[record] = 1, 1

    def _answer(self, record: int, *, wrong: bool) -> None:
        attempt = self.running.pop(record)
        self.machine.answered(record, attempt, [f"{record}/{attempt}"], self.now, wrong=wrong)
        if wrong and attempt < self.rules.retries.attempts:
            self.failed_at[record] = self.now
        else:
            self.answered.add(record)

    def _raise(self, record: int) -> None:
        attempt = self.running.pop(record)
        failed = self.machine.failed(record, attempt, self.now, repeat=True)
        last = attempt == REPLACEMENT or attempt == self.rules.retries.attempts
        assert (failed is not None) == last
        self.dead = last
        self.failed_at[record] = self.now

    def _time(self, to_ms: int) -> None:
        self.now = to_ms
        for effect in self.machine.tick(self.now):
            record = effect.request.record
            assert record not in self.answered
            if isinstance(effect, Again):
                self.tries[record] += 1
                assert effect.request.attempt == self.tries[record] <= self.rules.retries.attempts
                pause = self.rules.retries.delay_after(self.tries[record] - 1)
                assert self.now == self.failed_at[record] + pause
                self.running[record] = self.tries[record]
            else:
                assert record not in self.expired
                assert self.rules.timeout_ms is not None
                assert self.now == self.admitted_at[record] + self.rules.timeout_ms
                self.expired.add(record)
                self.running[record] = REPLACEMENT

    def _take(self) -> None:
        taken = self.machine.take()
        assert taken is not None
        if isinstance(taken, Request):
            assert taken.record in self.answered
            assert len(taken.results) == 1
            self.left.append(taken.record)
        else:
            self.left.append(taken.event)

    def check(self) -> None:
        """The invariants of docs/machines/async-io.md."""
        gone = set(self.left)
        inside = [each for each in self.entered if each not in gone]
        assert len(self.left) == len(gone)
        assert self.machine.records() == [each for each in inside if isinstance(each, int)]
        assert len(self.machine) <= self.rules.capacity
        if self.rules.ordered:
            assert self.left == self.entered[: len(self.left)]
        else:
            self._check_borders()
        assert self.machine.ready == self._may_leave()
        if self.rules.timeout_ms is not None and not self.dead:
            for record, since in self.admitted_at.items():
                over = self.now >= since + self.rules.timeout_ms
                assert not over or record in self.answered or record in self.expired

    def _check_borders(self) -> None:
        for at, border in enumerate(self.left):
            if isinstance(border, str):
                before = self.entered[: self.entered.index(border)]
                assert set(self.left[:at]) == set(before)
                assert [each for each in self.left[:at] if isinstance(each, str)] == [
                    each for each in before if isinstance(each, str)
                ]

    def _may_leave(self) -> bool:
        gone = set(self.left)
        inside = [each for each in self.entered if each not in gone]
        if self.rules.ordered:
            return bool(inside) and (isinstance(inside[0], str) or inside[0] in self.answered)
        stop = next((at for at, each in enumerate(inside) if isinstance(each, str)), len(inside))
        return (stop == 0 and bool(inside)) or any(each in self.answered for each in inside[:stop])

    def finish(self) -> None:
        """Everything still inside is answered in time: then all of it leaves, and nothing is due any more."""
        for _ in range(1_000):
            if self.machine.ready:
                self.make(("take", 0))
            elif self.running:
                self.make(("answer", min(self.running)))
            elif (due := self.machine.due()) is not None and due >= self.now:
                self.make(("time", due))
            else:
                break
        assert sorted(map(str, self.left)) == sorted(map(str, self.entered))
        assert self.machine.records() == []

    def signature(self) -> tuple[object, ...]:
        """What tells one state from another."""
        return (
            tuple(self.left), tuple(self.entered), tuple(sorted(self.running.items())), self.now, self.dead,
            tuple(sorted(self.tries.items())), tuple(sorted(self.answered)), tuple(sorted(self.expired)),
            tuple(sorted(self.failed_at.items())),
        )  # fmt: skip
