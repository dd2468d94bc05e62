"""Every order of marks, barriers and ends in a diamond of gates: what `docs/machines/marks.md` promises.

    a ──► left ──► both
    b ──► left
    b ──► right ─► both

Sources send a record between any two other elements, so that a cut says exactly how far a gate has read. A
gate's channels hold all that will come; which of them it reads next is what the search tries in every way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import combinations, product
from typing import NamedTuple

import pytest

from headgate.core.marks import NO_EPOCH, MarkGate

BARRIER = 1


class Element(NamedTuple):
    """A record of a source, a mark with its epoch, one that is lost, a barrier, or an end with the last epoch
    before it.
    """

    kind: str
    number: int
    source: str = ""


Channel = tuple[Element, ...]


def program(source: str, controls: Sequence[tuple[str, int]]) -> Channel:
    """What a source emits: these marks and barriers with a record before and after each, and its end."""
    elements = [Element("record", 0, source)]
    for place, (kind, number) in enumerate(controls):
        elements += [Element(kind, number), Element("record", place + 1, source)]
    last = max((number for kind, number in controls if kind == "mark"), default=NO_EPOCH)
    return (*elements, Element("end", last))


def programs(source: str) -> Iterator[Channel]:
    """With any of the epochs 1 to 3, and no barrier, or one at any place."""
    for count in range(4):
        for epochs in combinations((1, 2, 3), count):
            marks = [("mark", epoch) for epoch in epochs]
            yield program(source, marks)
            for place in range(count + 1):
                yield program(source, [*marks[:place], ("barrier", BARRIER), *marks[place:]])


def has_barrier(channel: Channel) -> bool:
    return any(element.kind == "barrier" for element in channel)


def position(channel: Channel, kind: str, number: int) -> int | None:
    """How many records a source emits before one of its marks or its barrier; None: it has none such."""
    for place, element in enumerate(channel):
        if (element.kind, element.number) == (kind, number):
            return sum(each.kind == "record" for each in channel[:place])
    return None


def expected(channel: Channel, kind: str, number: int) -> int | None:
    """P(s, e) of `docs/machines/marks.md`; everything, where a source ended before the epoch began."""
    if kind == "mark" and channel[-1].number < number:
        return sum(element.kind == "record" for element in channel)
    return position(channel, kind, number)


class Gate:
    """A gate in the middle of its input: barriers as exactly-once handlers align them, marks by the
    machine.
    """

    def __init__(self, channels: Sequence[Channel], sources: dict[str, Channel]) -> None:
        self.channels, self.sources, self.marks = channels, sources, MarkGate(len(channels))
        self.next = [0] * len(channels)
        self.open, self.barred = set(range(len(channels))), set[int]()
        self.out: list[Element] = []

    def choices(self) -> list[int]:
        blocked = self.barred | self.marks.waiting
        return [channel for channel in sorted(self.open) if channel not in blocked]

    def take(self, channel: int) -> None:
        element = self.channels[channel][self.next[channel]]
        self.next[channel] += 1
        match element.kind:
            case "record":
                self.out.append(element)
            case "mark":
                self.came_out(self.marks.mark(channel, element.number, {}, aligning=bool(self.barred)))
            case "barrier":
                self.marks.drop()
                self.barred.add(channel)
            case "lost":
                self.marks.lost(element.number)
            case "end":
                self.open.discard(channel)
                self.came_out(self.marks.end(channel, element.number))
        lost = self.marks.untold()
        if lost is not None:
            self.out.append(Element("lost", lost))
        self.told(element)
        if self.barred and self.barred == self.open:
            self.barred = set()
            self.cut("barrier", BARRIER)
        if not self.open:
            self.out.append(Element("end", self.marks.last))

    def told(self, element: Element) -> None:
        """Of each mark that was read and is not gathered, gates below know that it came or never will."""
        if element.kind == "mark" and not self.marks.waiting:
            assert any(each.number >= element.number for each in self.out if each.kind in ("mark", "lost"))

    def came_out(self, epoch: int | None) -> None:
        if epoch is not None:
            self.cut("mark", epoch)

    def cut(self, kind: str, number: int) -> None:
        """Pass a mark or barrier on, after a look at what was read of each source on each channel."""
        self.out.append(Element(kind, number))
        for elements, taken in zip(self.channels, self.next, strict=True):
            read = Counter(each.source for each in elements[:taken] if each.kind == "record")
            above = {each.source for each in elements if each.kind == "record"}
            assert read == {source: expected(self.sources[source], kind, number) for source in above}

    @property
    def state(self) -> object:
        return tuple(self.next), tuple(self.out)


def outputs(channels: Sequence[Channel], sources: dict[str, Channel]) -> set[Channel]:
    """What a gate may send, over all orders in which it may read its channels."""
    found, seen, ahead = set[Channel](), set[object](), [Gate(channels, sources)]
    while ahead:
        gate = ahead.pop()
        if not gate.open:
            found.add(tuple(gate.out))
            continue
        choices = gate.choices()
        assert choices, f"nothing can be read any more: {gate.out}"
        for channel in choices:
            following = copy_of(gate)
            following.take(channel)
            if following.state not in seen:
                seen.add(following.state)
                ahead.append(following)
    return found


def copy_of(gate: Gate) -> Gate:
    """A copy whose moves do not change the original; `deepcopy` takes five times as long."""
    made, made.marks = copy(gate), copy(gate.marks)
    for owner, names in ((made, vars(made)), (made.marks, MarkGate.__slots__)):
        for name in names:
            value = getattr(owner, name)
            if isinstance(value, (list, set, dict)) and value is not gate.sources:
                setattr(owner, name, copy(value))
    return made


def thinned(channel: Channel) -> Channel:
    """Without the order of records between two other elements: no gate can tell, and less is tried."""
    thin: list[Element] = []
    records: list[Element] = []
    for element in channel:
        if element.kind == "record":
            records.append(element)
        else:
            thin += [*sorted(records), element]
            records = []
    return tuple(thin)


def check(of_a: Channel, of_b: Channel) -> None:
    """All orders at `left`, and for each of its outputs all orders at `both`."""
    sources = {"a": of_a, "b": of_b}
    (right,) = outputs([of_b], sources)
    for left in {thinned(each) for each in outputs([of_a, of_b], sources)}:
        certain = common_epochs(of_a, of_b)
        assert certain <= epochs(left)
        for both in {thinned(each) for each in outputs([left, thinned(right)], sources)}:
            assert certain <= epochs(both)
            order = [element.number for element in both if element.kind == "mark"]
            assert order == sorted(set(order))


def epochs(channel: Channel) -> set[int]:
    return {element.number for element in channel if element.kind == "mark"}


def common_epochs(of_a: Channel, of_b: Channel) -> set[int]:
    """Epochs that both sources emit on the same side of their barriers: these have to come out."""

    def sides(channel: Channel) -> set[tuple[int, bool]]:
        barrier = position(channel, "barrier", BARRIER)
        found = {epoch: position(channel, "mark", epoch) for epoch in epochs(channel)}
        return {(epoch, barrier is None or place < barrier) for epoch, place in found.items()}

    return {epoch for epoch, _ in sides(of_a) & sides(of_b)}


PAIRS = [
    (of_a, of_b)
    for of_a, of_b in product(programs("a"), programs("b"))
    if has_barrier(of_a) == has_barrier(of_b)
]
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_every_order(part: int) -> None:
    """A mark that comes out says how far each source was read, on each way; nothing stands still."""
    for of_a, of_b in PAIRS[part::PARTS]:
        check(of_a, of_b)
