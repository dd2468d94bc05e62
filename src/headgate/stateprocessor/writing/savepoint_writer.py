"""Writes savepoints from DataFrames: new ones, or copies of a snapshot with some of its state replaced.

Spark sorts the rows by key group and writes the tables; see `docs/savepoint-writer.md`. What is written is a
savepoint as a job takes it: a job that declares its state restores it at any parallelism, on either backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import check_parallelism
from headgate.state.canonical.table_layout import TIMERS
from headgate.state.targets import timers_target
from headgate.stateprocessor.ranges import quoted
from headgate.stateprocessor.writing.writing_rows import (
    Convert,
    KeyRows,
    TimerColumn,
    check_keys,
    descriptor_of,
    outputs_of,
    shipped,
)
from headgate.stateprocessor.writing.writing_run import NewState, SavepointContents, WrittenSavepoint, run
from headgate.stateprocessor.writing.writing_tables import Transform

if TYPE_CHECKING:
    # For type checkers only: an annotation such as `hg.ValueState[int]` is no class at run time.
    from headgate.stateprocessor.writing.writing_rows import Declared

V = TypeVar("V")
W = TypeVar("W")

DOMAINS: Final = ("event", "processing")
_DOMAIN: Final = "__headgate_time_domain"


@dataclass(frozen=True)
class SavepointWriter(SavepointContents):
    """Builder of a savepoint from DataFrames; nothing is computed before :meth:`write`.

    Every method but `write` returns a new writer. Begin with :meth:`new` or :meth:`from_existing`.

    Example:
        >>> import headgate as hg
        >>> class Count(hg.KeyedProcessFunction[str, str, int]):
        ...     count: hg.ValueState[int] = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         yield self.count.value
        >>> def bootstrap(spark):  # the totals of yesterday become the state that the job begins with
        ...     totals = spark.createDataFrame([("ada", 3), ("bob", 5)], "user string, n long")
        ...     writer = SavepointWriter.new()
        ...     writer = writer.with_operator("counts", Count, {"count": totals}, key="user", value="n")
        ...     return writer.write("/savepoints/yesterday").uri
    """

    @classmethod
    def new(
        cls, max_parallelism: int = 128, parallelism: int | None = None, *, options: Sequence[str] = ()
    ) -> SavepointWriter:
        """Return a writer of a savepoint that holds only what is added to it.

        Args:
            max_parallelism: number of key groups; that of the jobs that are to restore it.
            parallelism: into how many ranges of key groups each state is cut, one file each; jobs may have
                any other. None: two for each of Spark's slots, but at most one for each key group.
            options: ``key=value`` settings of storages, as after ``-D``.

        Raises:
            UsageError: the numbers are not possible.
        """
        check_parallelism(max_parallelism, 1 if parallelism is None else parallelism)
        return cls(None, max_parallelism, parallelism, tuple(options))

    @classmethod
    def from_existing(cls, uri: str, *, options: Sequence[str] = ()) -> SavepointWriter:
        """Return a writer of a savepoint that copies a savepoint or checkpoint, except for what is changed.

        Number of key groups and of ranges stay, and so do positions of sources and state of sinks. Nothing is
        read before :meth:`write`, which refuses a checkpoint with records in flight.

        Args:
            uri: of the savepoint or checkpoint, which is only read.
            options: ``key=value`` settings of storages, as after ``-D``.
        """
        return cls(uri, None, None, tuple(options))

    def with_state(
        self,
        uid: str,
        state: str,
        frame: DataFrame,
        *,
        key: str | Sequence[str],
        declared: Declared,
        value: str = "value",
        convert: Convert | None = None,
        written_at: str | None = None,
    ) -> SavepointWriter:
        """Add a state of an operator to be written, in place of the existing one.

        Args:
            uid: of the operator.
            state: its name: the attribute of the function.
            frame: a row for each key; computed when the savepoint is written.
            key: the key column; several make the tuple that the program's keys are.
            declared: the function that declares the state or its class; or its annotation, such as
                ``hg.ValueState[int]``.
            value: the column with what the state holds: a value, a whole list, a whole map; of reducing state
                the reduced value, of aggregating state the accumulator.
            convert: makes of a value of the column, as Python has it, one of the state; None: types must fit.
            written_at: of state with a time to live, the column with the moment of a key's last write; None:
                the time of this call.

        Raises:
            UsageError: no such column or state; a streaming DataFrame; values or keys of another type than
                declared; keys of another type than those of the operator's other states.
        """
        names = [value] if written_at is None else [value, written_at]
        keys, types = _columns(frame, key, names)
        outputs = outputs_of(descriptor_of(declared, state), value, types, convert, written_at)
        check_keys(declared, uid, KeyRows(keys, [types[name] for name in keys]).shape)
        chosen = frame.select(*map(quoted, dict.fromkeys([*keys, *names])))
        return self._adding(uid, state, NewState(chosen, keys, [types[name] for name in keys], outputs))

    def with_operator(
        self,
        uid: str,
        function: Declared,
        frames: Mapping[str, DataFrame],
        *,
        key: str | Sequence[str],
        value: str = "value",
    ) -> SavepointWriter:
        """Add several states of one operator, as :meth:`with_state` adds one.

        Args:
            uid: of the operator.
            function: the function that declares the states, or its class.
            frames: state name -> DataFrame with a row for each key.
            key: the key column, or columns, of every frame.
            value: the column with what the state holds; in a frame without such a column, the one named like
                the state.

        Raises:
            UsageError: as for :meth:`with_state`.
        """
        writer = self
        for state, frame in frames.items():
            column = value if value in frame.columns else state
            writer = writer.with_state(uid, state, frame, key=key, declared=function, value=column)
        return writer

    def with_timers(
        self,
        uid: str,
        frame: DataFrame,
        *,
        key: str | Sequence[str],
        timestamp: str = "timestamp",
        domain: str = "event",
    ) -> SavepointWriter:
        """Set the timers of one operator, in place of all that the snapshot has; several calls add up.

        Args:
            uid: of the operator.
            frame: a row for each timer.
            key: the key column, or columns.
            timestamp: the column with the timer's time: a timestamp, or integers of ms since 1970.
            domain: ``"event"`` or ``"processing"``.

        Raises:
            UsageError: no such column or domain; a type that does not fit, or differs between two calls.
        """
        if domain not in DOMAINS:
            raise UsageError(f"timers have no domain {domain!r}; expected {' or '.join(map(repr, DOMAINS))}")
        keys, types = _columns(frame, key, [timestamp])
        chosen = frame.select(*map(quoted, [*keys, timestamp])).withColumn(_DOMAIN, f.lit(domain))
        before = self.states.get((uid, TIMERS))
        if before is not None:
            chosen = _together(before, chosen, [types[name] for name in keys], uid)
        column = TimerColumn(timers_target().schema, _DOMAIN, timestamp, types[timestamp])
        column.rows()
        key_types = [types[name] for name in keys]
        return self._adding(
            uid, TIMERS, NewState(chosen, keys, key_types, {TIMERS: column}, (_DOMAIN, timestamp))
        )

    def remove(self, uid: str, state: str | None = None) -> SavepointWriter:
        """Leave out one state, or all state, that the existing snapshot has of an operator.

        Args:
            uid: of the operator.
            state: name of a keyed or operator state, or ``"timers:all"``; None: all of the operator.

        Raises:
            UsageError: the writer is not from an existing snapshot, or the state is transformed, too; if the
                snapshot lacks the state, `write` raises.
        """
        self._needs_base("remove")
        return replace(self, removed=self.removed | {(uid, state)})._refusing_both()

    def transform(
        self,
        uid: str,
        state: str,
        function: Callable[[V], W],
        *,
        declared: Declared,
        into: Declared | None = None,
    ) -> SavepointWriter:
        """Replace each value in an existing keyed state by `function(value)`; the last call per state counts.

        Args:
            uid: of the operator.
            state: name of a keyed state; :meth:`write` refuses operator state, which has no keys.
            function: gets what the state holds under a key, a whole list or map of such state, and gives what
                it is to hold; runs in Spark's tasks.
            declared: the function or annotation that declares the state as stored; see :meth:`with_state`.
            into: the one that declares it as it is to be; None: the same.

        Raises:
            UsageError: the writer is not from an existing snapshot; no such declaration, or no function; the
                state is removed, too.
        """
        self._needs_base("transform")
        if not callable(function):
            raise UsageError(
                f"transform() got {function!r}; expected a function from an old value to a new one"
            )
        before = shipped(descriptor_of(declared, state))
        after = before if into is None else shipped(descriptor_of(into, state))
        changed = {**self.transforms, (uid, state): Transform(function, before, after)}
        return replace(self, transforms=changed)._refusing_both()

    def write(self, uri: str) -> WrittenSavepoint:
        """Compute everything and write the savepoint; it counts once its metadata is there, which comes last.

        Args:
            uri: path or URI of a folder that is empty or not there, and that Spark's executors reach.

        Raises:
            UsageError: a value, a key, the folder or what is to be changed is wrong; the message says which.
                After any error, what was written is deleted.
            StorageError: the existing snapshot is damaged, or a storage refused.
            OperatingError: Spark failed.
        """
        return run(self, uri)

    def _needs_base(self, verb: str) -> None:
        if self.base is None:
            raise UsageError(
                f"{verb}() changes an existing savepoint; begin with SavepointWriter.from_existing()"
            )

    def _refusing_both(self) -> SavepointWriter:
        for uid, state in self.transforms:
            if not self.removed.isdisjoint({(uid, state), (uid, None)}):
                raise UsageError(
                    f"{state!r} of operator {uid!r} is removed and transformed; call one of the two for "
                    "it, and with_state() for what takes its place"
                )
        return self

    def _adding(self, uid: str, state: str, added: NewState) -> SavepointWriter:
        keys = KeyRows(added.keys, added.key_types).description
        for (other, name), known in self.states.items():
            if other == uid and name != state and KeyRows(known.keys, known.key_types).description != keys:
                raise UsageError(
                    f"{state!r} of operator {uid!r} has keys of other types than its {name!r}; cast the key "
                    "columns, as an operator has keys of one type"
                )
        return replace(self, states={**self.states, (uid, state): added})


def _columns(
    frame: DataFrame, key: str | Sequence[str], names: Sequence[str]
) -> tuple[list[str], dict[str, pa.DataType]]:
    """Return the key columns, and the Arrow types of these and `names`; UsageError: one is not there."""
    if getattr(frame, "isStreaming", False):
        raise UsageError("a streaming DataFrame has no end; expected one that spark.read gives")
    keys = [key] if isinstance(key, str) else list(key)
    wanted = dict.fromkeys([*keys, *names])
    missing = [name for name in wanted if name not in frame.columns]
    if missing or not keys:
        raise UsageError(
            f"the DataFrame has no column {missing[0] if missing else 'for keys'!r}; it has "
            f"{', '.join(frame.columns)}"
        )
    schema = to_arrow_schema(frame.select(*map(quoted, wanted)).schema, timezone="UTC")
    types = {name: schema.field(name).type for name in wanted}
    KeyRows(keys, [types[name] for name in keys])
    return keys, types


def _together(before: NewState, chosen: DataFrame, key_types: Sequence[pa.DataType], uid: str) -> DataFrame:
    if list(before.key_types) != list(key_types) or before.frame.columns != chosen.columns:
        raise UsageError(
            f"the timers of operator {uid!r} come from DataFrames with the columns "
            f"{', '.join(before.frame.columns[:-1])} and {', '.join(chosen.columns[:-1])}; give both the "
            "same names and types"
        )
    return before.frame.unionByName(chosen)
