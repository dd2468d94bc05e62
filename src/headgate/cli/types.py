"""``headgate types``: shows type and serializer of every stream and state, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from rich.markup import escape
from rich.table import Table

from headgate.cli.terminal_tables import lines, table


class KeysRow(TypedDict):
    """A row on an operator's keys: their `type`, None if none is declared; `why`: what declares it."""

    operator: str
    uid: str
    type: str | None
    why: str


class StreamRow(TypedDict):
    """A row on a stream; `to`: vertex (chain) it leads to, None within a chain; `tag`: of a side output."""

    operator: str
    uid: str
    tag: str | None
    to: int | None
    side: str
    type: str
    serializer: str
    why: str
    immutable: bool | None
    in_flight: str


class StateRow(TypedDict):
    """A row on a state; `refused`: why it has no serializer, `risk`: what follows from pickle, else None."""

    operator: str
    uid: str
    state: str
    kind: str
    types: list[str]
    serializer: list[str]
    why: str
    immutable: bool
    refused: str | None
    risk: str | None


class TypesFacts(TypedDict):
    """The rows that ``headgate types`` shows of a captured plan."""

    streams: list[StreamRow]
    states: list[StateRow]
    keys: list[KeysRow]


_OPERATOR_STATE: Final = ("split list", "union list", "broadcast")
_STREAM_COLUMNS: Final = (
    "stream",
    "to",
    "type",
    "serializer",
    "why",
    "immutable",
    "in an unaligned checkpoint",
)
_STATE_COLUMNS: Final = ("operator", "state", "type", "serializer", "why", "at a snapshot")
_COLORS: Final = {"yes": "green", "never there": "green", "no": "red", "plain values only": "yellow"}
_FOOT: Final = (
    "self-describing holds plain values; records that are not plain travel as pickle between workers, and no "
    "checkpoint stores them"
)


def render(job: str, types: TypesFacts, color: bool = False) -> str:
    streams = _table(_STREAM_COLUMNS, [_stream(row) for row in types["streams"]])
    shown = [f"job {job!r}", "", *lines(streams, color)]
    if types["states"]:
        states = _table(_STATE_COLUMNS, [_state(row) for row in types["states"]])
        shown += ["", *lines(states, color)]
        shown += [f"refused: {row['refused']}" for row in types["states"] if row["refused"]]
        shown += [f"risk: state {row['state']!r} is {row['risk']}" for row in types["states"] if row["risk"]]
    if types["keys"]:
        shown += ["", *map(_keys, types["keys"])]
    return "\n".join([*shown, "", _FOOT])


def _keys(row: KeysRow) -> str:
    """Return a line on the type of an operator's keys.

    Example:
        >>> _keys({"operator": "Count", "uid": "count", "type": "int", "why": "function Count"})
        'keys of Count (count): int, as function Count declares'
    """
    if row["type"] is None:
        return f"keys of {_operator(row)}: {row['why']}, so a change of their type is not noticed"
    return f"keys of {_operator(row)}: {row['type']}, as {row['why']} declares"


def _stream(row: StreamRow) -> list[str]:
    tag = "" if row["tag"] is None else f" side output {row['tag']!r}"
    if row["to"] is None:
        target, stored = "within the chain", "-"
    else:
        color = _COLORS[row["in_flight"]]
        side = " (broadcast side)" if row["side"] == "broadcast" else ""
        target, stored = f"vertex {row['to']}{side}", f"[{color}]{row['in_flight']}[/]"
    head = [escape(_operator(row) + tag), target, escape(row["type"])]
    immutable = {True: "yes", False: "no", None: "unknown"}[row["immutable"]]
    return [*head, row["serializer"], escape(row["why"]), immutable, stored]


def _operator(row: KeysRow | StreamRow | StateRow) -> str:
    return f"{row['operator']} ({row['uid']})"


def _state(row: StateRow) -> list[str]:
    declared = escape(f"{row['kind']}[{', '.join(row['types'])}]")
    head = [escape(_operator(row)), escape(row["state"]), declared]
    if row["refused"]:
        return [*head, "[red]none[/]", row["why"], "-"]
    kept = "kept, immutable" if row["immutable"] else "copied when changed"
    if row["kind"] in _OPERATOR_STATE:
        kept = "copied"
    return [*head, ", ".join(row["serializer"]), row["why"], kept]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    made = table(columns)
    for row in rows:
        made.add_row(*row)
    return made
