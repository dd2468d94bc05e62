"""Records of two streams on their way to the subtask that joins them: each has its key, and says its side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple, Optional, TypeAlias, get_args

from headgate.api.windows.record_fields import Getter
from headgate.api.windows.window_states import Storable, stored_record
from headgate.common.hints import Hint

LEFT: Final = 0
RIGHT: Final = 1
_SPREAD: Final = 128
"""Stand-ins for the key of records without one, so that these are not one hot key."""
_STAND_INS: Final[dict[Hint, Callable[[int], Any]]] = {int: int, str: str, float: float}

Tagged: TypeAlias = Any
"""A record of the type that :func:`tagged_type` makes."""


class Side(NamedTuple):
    """One of the two streams: how its records are stored, what their key is, and whether all come out."""

    storable: Storable
    key: Getter
    kept: bool  # whether a record without partner comes out


def tagged_type(sides: Sequence[Side], key: Hint) -> Any:
    """Return the type of tagged records; `key` is the type of keys, ``Any`` if it is not known.

    Its fields: `side` (0 left, 1 right), `key`, `alone` (its key was None, so it has no partner), `row`
    (it was a row of columns), and `left` or `right`, the record.
    """
    left, right = (_optional(side.storable.hint) for side in sides)
    fields = {"side": int, "key": key, "alone": bool, "row": bool, "left": left, "right": right}
    record = stored_record("JoinedRecord", fields)
    record.__repr__ = _shown  # in messages the program's own record is what helps
    return record


def _shown(record: Tagged) -> str:
    held, name = (record.left, "left") if record.side == LEFT else (record.right, "right")
    return f"{held!r} of the {name} stream"


def _optional(hint: Hint) -> Hint:
    found: Hint = hint if hint is Any else Optional[hint]  # type: ignore[assignment]  # noqa: UP045
    return found


def common_key(hints: Sequence[Hint | None], *, may_lack: bool) -> Hint:
    """Return the type of the keys of both streams, ``Any`` if it is not known or is not one type. With
    `may_lack` it must have values that stand in for missing keys.

    Example:
        >>> common_key([int, int | None], may_lack=True), common_key([int, str], may_lack=True)
        (<class 'int'>, typing.Any)
    """
    left, right = map(without_none, hints)
    if left is None or left != right or (may_lack and left not in _STAND_INS):
        return Any
    return left


def without_none(hint: Hint | None) -> Hint | None:
    """Return the type of the values that are not None; None where it is not one type."""
    options = [each for each in get_args(hint) if each is not NoneType]
    if NoneType in get_args(hint):
        return options[0] if len(options) == 1 else None
    return hint


class Tagger:
    """Makes tagged records of one side's records, for a ``flat_map``. A key that is None, or a tuple with
    None in it, equals nothing: such a record goes on only if records without partner come out.
    """

    def __init__(self, number: int, side: Side, tagged: Callable[..., Tagged], key: Hint) -> None:
        self._number, self._side, self._tagged = number, side, tagged
        self._stand_in = _STAND_INS.get(key, int)
        self._count = 0

    def __call__(self, record: Any) -> tuple[Tagged, ...]:
        key = self._side.key(record)
        alone = key is None or (type(key) is tuple and None in key)
        if alone:
            if not self._side.kept:
                return ()
            self._count = (self._count + 1) % _SPREAD
            key = self._stand_in(self._count)
        held, row = self._side.storable.held(record)
        both = (held, None) if self._number == LEFT else (None, held)
        return (self._tagged(self._number, key, alone, row, *both),)
