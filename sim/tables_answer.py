"""Which rows the tables of a topology must give, computed over whole streams by plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sim.tables import Windows
from sim.topology import ROWS, TABLES, Feed, Step, Topology
from sim.topology_answer import answer_of

Number = int | None


class Fixed(NamedTuple):
    """The part of a row that is the same however often its records came.

    Attributes:
        key: None: there is none.
        start: of the window, in ms.
        end: of the window, in ms.
        extremes: least and most; in a join of both sides, or None where there is no partner.
    """

    key: Number
    start: int
    end: int
    extremes: tuple[Number, ...]


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        fixed: what at-least-once does not change.
        sums: count and total; larger where records came again.
    """

    fixed: Fixed
    sums: tuple[Number, ...]


@dataclass(frozen=True)
class TablesAnswer:
    """What must come out.

    Attributes:
        tables: uid of a step -> the rows of its table; no two have the same fixed part.
        sinks: uid of a sink -> uid of the table whose rows it gets.
        read: uid of a step of windows of records -> how many records are in its windows.
    """

    tables: dict[str, list[TableRow]]
    sinks: dict[str, str]
    read: dict[str, int]


def tables_answer(topology: Topology) -> TablesAnswer:
    """The rows of all tables of a topology."""
    streams = answer_of(topology).streams
    answer = TablesAnswer({}, {}, {})
    for step in topology.of(*TABLES, ROWS):
        if step.verb == ROWS:
            answer.sinks[step.uid] = step.feeds[0].step
            continue
        if step.verb == "windows":
            assert step.windows is not None
            told = streams[Feed(step.feeds[0].step)].told
            kept = [one.item for one in told if is_kept(step.windows, one.item.value)]
            answer.read[step.uid] = len(kept)
            answer.tables[step.uid] = rows_of(step.windows, [(item.value, item.at_ms) for item in kept])
        elif step.verb == "again":
            answer.tables[step.uid] = by_window(answer.tables[step.feeds[0].step], step.number)
        else:
            left, right = (answer.tables[feed.step] for feed in step.feeds)
            answer.tables[step.uid] = list(joined(step, left, right))
    return answer


def is_kept(windows: Windows, value: int) -> bool:
    """Whether a record goes through the filter of a table."""
    return not windows.keeps or value % windows.keeps != 0


def rows_of(windows: Windows, records: Iterable[tuple[int, int]]) -> list[TableRow]:
    """The rows of windows of records, each a value and an event time."""
    by_key: dict[Number, list[tuple[int, int]]] = defaultdict(list)
    for value, at in records:
        key = value % windows.keys if windows.keys else None
        by_key[key].append((at, value * windows.times + 1))
    found: dict[tuple[Number, int, int], list[int]] = defaultdict(list)
    for key, timed in by_key.items():
        spans = (
            _sessions(sorted(timed), windows.size_ms) if windows.kind == "session" else _spans(timed, windows)
        )
        for start, end, amount in spans:
            found[key, start, end].append(amount)
    return [
        TableRow(Fixed(*where, (min(amounts), max(amounts))), (len(amounts), sum(amounts)))
        for where, amounts in found.items()
    ]


def _spans(timed: Iterable[tuple[int, int]], windows: Windows) -> Iterator[tuple[int, int, int]]:
    """Start, end and amount for each window of each record."""
    size, slide = windows.size_ms, windows.slide_ms
    for at, amount in timed:
        if windows.kind == "cumulative":
            start = at // size * size
            yield from ((start, e, amount) for e in range(start + slide, start + size + 1, slide) if at < e)
        else:
            for start in range(at // slide * slide, at - size, -slide):
                yield start, start + size, amount


def _sessions(timed: Sequence[tuple[int, int]], gap: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and amount for the session of each record, of records in order of time."""
    sessions: list[list[tuple[int, int]]] = []
    for at, amount in timed:
        if sessions and at <= sessions[-1][-1][0] + gap:
            sessions[-1].append((at, amount))
        else:
            sessions.append([(at, amount)])
    for session in sessions:
        yield from ((session[0][0], session[-1][0] + gap, amount) for _, amount in session)


def by_window(rows: Iterable[TableRow], keys: int) -> list[TableRow]:
    """The rows of windows of windows' rows: those of one window, by their key modulo `keys`."""
    found: dict[tuple[Number, int, int], list[TableRow]] = defaultdict(list)
    for row in rows:
        key = (row.fixed.key or 0) % keys if keys else None
        found[key, row.fixed.start, row.fixed.end].append(row)
    return [
        TableRow(Fixed(*where, _extremes(same)), (len(same), sum(row.sums[0] or 0 for row in same)))
        for where, same in found.items()
    ]


def _extremes(rows: Iterable[TableRow]) -> tuple[int, int]:
    extremes = [value for row in rows for value in row.fixed.extremes if value is not None]
    return min(extremes), max(extremes)


def joined(step: Step, left: Iterable[TableRow], right: Iterable[TableRow]) -> Iterator[TableRow]:
    """The rows of a join of rows with the same key in the same window."""
    partners: dict[tuple[Number, int, int], TableRow] = {row.fixed[:3]: row for row in right}
    nothing, how = (None, None), step.how
    for row in left:
        partner = partners.get(row.fixed[:3])
        if how in ("semi", "anti"):
            if (partner is not None) == (how == "semi"):
                yield row
        elif partner is not None:
            yield _pair(row.fixed, row.fixed.extremes, partner.fixed.extremes, (*row.sums, *partner.sums))
        elif how in ("left", "full"):
            yield _pair(row.fixed, row.fixed.extremes, nothing, (*row.sums, *nothing))
    if how in ("right", "full"):
        known = {row.fixed[:3] for row in left}
        for row in partners.values():
            if row.fixed[:3] not in known:
                yield _pair(row.fixed, nothing, row.fixed.extremes, (*nothing, *row.sums))


def _pair(
    where: Fixed, left: tuple[Number, ...], right: tuple[Number, ...], sums: tuple[Number, ...]
) -> TableRow:
    return TableRow(Fixed(*where[:3], (*left, *right)), sums)
