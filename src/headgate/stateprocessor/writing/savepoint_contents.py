"""What a new savepoint is to hold, as plain data: new states, what is removed, what is transformed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headgate.stateprocessor.writing.writing_tables import RowColumn
from headgate.stateprocessor.writing.writing_transforms import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class NewState:
    """Rows that become one state of an operator, or its timers.

    Attributes:
        frame: has the columns that are named here, and no others.
        distinct: columns next to the keys that tell rows of one key apart.
    """

    frame: DataFrame
    keys: Sequence[str]
    key_types: Sequence[pa.DataType]
    outputs: Mapping[str, RowColumn]
    distinct: Sequence[str] = ()


class WrittenSavepoint(NamedTuple):
    """What came of it.

    Attributes:
        uri: of the savepoint.
        max_parallelism: its number of key groups.
        entries: operator uid -> state -> keys that were written; timers under "timers:all".
    """

    uri: str
    max_parallelism: int
    entries: dict[str, dict[str, int]]


@dataclass(frozen=True)
class SavepointContents:
    """All that is asked of a new savepoint; `base` is the snapshot that it changes, None: it begins empty."""

    base: str | None
    max_parallelism: int | None
    parallelism: int | None
    options: Sequence[str]
    states: Mapping[tuple[str, str], NewState] = field(default_factory=dict)
    removed: frozenset[tuple[str, str | None]] = frozenset()
    transforms: Mapping[tuple[str, str], Transform] = field(default_factory=dict)
