"""Keyed streams in windows: the calls that say when windows emit, what they keep, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from headgate.api.checking import inference
from headgate.api.checking.arguments import refuse_arity, refuse_blocking, refuse_unawaited
from headgate.api.functions import OutputTag, is_blocking
from headgate.api.showing import ShownAsLine
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import Outputs
from headgate.api.windows.assigners import SlidingWindows, WindowAssigner
from headgate.api.windows.evictors import Evictor
from headgate.api.windows.folding import Aggregates, aggregated, reduced
from headgate.api.windows.keeping import Folded, Processed, Reduced, WindowContext, keeping
from headgate.api.windows.trigger import Trigger, checked_trigger
from headgate.api.windows.window import TimeDomain, Window, checked_duration
from headgate.api.windows.window_aggregates import Aggregate
from headgate.api.windows.window_function import Rules, WindowFunction
from headgate.api.windows.window_states import Storable, names_of
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.graph.logical import NEW, WindowNode
from headgate.records.selectors import KeySelector

T = TypeVar("T")
K = TypeVar("K")
S = TypeVar("S", bound=Outputs[Any])


@dataclass(frozen=True)
class WindowRules:
    """Settings that calls of a :class:`WindowedStream` have made; None where a call was not made."""

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    lateness_ms: int | None = None
    late_tag: OutputTag[Any] | None = None

    @property
    def only_columns(self) -> bool:
        said = (self.trigger, self.evictor, self.lateness_ms, self.late_tag)
        of_columns = isinstance(self.assigner, SlidingWindows) and self.assigner.time is TimeDomain.EVENT
        return of_columns and said == (None, None, None, None)

    def complete(self, where: str) -> Rules:
        """Return the rules, with the default trigger if none is set. PlanError, beginning with `where`:
        there is no default (global windows), or the windows merge (sessions) and the trigger cannot.
        """
        trigger = self.trigger or self.assigner.default_trigger()
        if trigger is None:
            raise PlanError(
                f"{where}: global_window() never ends, so nothing would be emitted; say when, as in "
                ".trigger(hg.every_count(100))"
            )
        if self.assigner.merges and not trigger.can_merge:
            raise PlanError(
                f"{where}: the trigger has no on_merge(), and sessions become one when they "
                "touch; write it, or use other windows"
            )
        return Rules(self.assigner, trigger, self.lateness_ms or 0, self.late_tag)


class WindowedStream(ShownAsLine, Generic[K, T, S]):
    """A keyed stream whose records lie in windows; `aggregate`, `reduce` or `process` makes a stream of it.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"user": "ada", "at": at} for at in (1_000, 2_000, 61_000)])
        >>> timed = rows.with_event_time("at")
        >>> found = timed.key_by("user").window(hg.tumbling("1min")).aggregate(n=hg.count()).collect()
        >>> [(row["user"], row["window"]["start"].minute, row["n"]) for row in found]
        [('ada', 0, 2), ('ada', 1, 1)]
    """

    def __init__(
        self,
        environment: ProgramContext,
        number: int,
        key: KeySelector,
        rules: WindowRules,
        stream: Callable[[ProgramContext, int], S],
    ) -> None:
        self._environment, self._number, self._key = environment, number, key
        self._rules, self._stream = rules, stream

    def __repr__(self) -> str:
        return f"<WindowedStream of {self._rules.assigner.shape}, to be followed by aggregate()>"

    # -- when windows emit, and what they take

    def trigger(self, trigger: Trigger) -> WindowedStream[K, T, S]:
        """Return the windows with another trigger than the default, which emits when time passes their
        end, or by count. PlanError if `trigger` is no :class:`Trigger`.
        """
        return self._with(replace(self._rules, trigger=checked_trigger("trigger", trigger)))

    def evict(self, evictor: Evictor) -> WindowedStream[K, T, S]:
        """Return the windows with an evictor, which takes records out before or after a result; so they store
        all records. PlanError if `evictor` is no :class:`Evictor`.
        """
        if not isinstance(evictor, Evictor):
            raise PlanError(
                f"evict() ({user_site()}) got {evictor!r}; expected an evictor such as hg.last_records(10)"
            )
        return self._with(replace(self._rules, evictor=evictor))

    def lateness(self, lateness: str | int) -> WindowedStream[K, T, S]:
        """Return windows that take records for some time after their end; each makes its window emit again.

        A record is late when the watermark has passed the end of its window by more than this.

        Args:
            lateness: as text such as ``"1min"``, or in ms.

        Raises:
            PlanError: `lateness` is no duration, or the windows are not of event time.
        """
        self._demand_event_time("lateness")
        lateness_ms = checked_duration("lateness", "lateness", lateness, least=0)
        return self._with(replace(self._rules, lateness_ms=lateness_ms))

    def late_to(self, tag: OutputTag[Any]) -> WindowedStream[K, T, S]:
        """Return windows whose late records go to a side output; by default they are dropped and counted.

        Args:
            tag: the name of the side output, to be given to ``side_output()`` of the resulting stream.

        Raises:
            PlanError: `tag` is no tag, or the windows are not of event time.
        """
        self._demand_event_time("late_to")
        if not isinstance(tag, OutputTag):
            raise PlanError(
                f'late_to() ({user_site()}) got {tag!r}; expected a tag such as hg.OutputTag("late")'
            )
        return self._with(replace(self._rules, late_tag=tag))

    # -- what comes out

    def aggregate(self, *, uid: str | None = None, **aggregates: Aggregate) -> S:
        """Return a record for each window that emits: its key, `window` with start and end, and aggregates.

        Results are read by the names of their fields. Their event time is the last ms of the window. Windows
        that tumble or slide in event time, with nothing said of triggers, evictors or lateness, are computed
        as columns where the stream's columns are known.

        Args:
            uid: names the state for later versions of the program; needed when checkpoints are on.
            aggregates: the results' fields, each an aggregate such as ``hg.count()`` or ``hg.max("price")``.

        Raises:
            PlanError: something is no aggregate, a name is taken, or a column does not fit; a global window
                has no trigger, or sessions have one that cannot merge.
        """
        where = f"aggregate() ({user_site()})"
        self._check_aggregates(where, aggregates)
        rules = self._rules.complete(where)
        if self._rules.only_columns and (found := self._columns(aggregates, uid)) is not None:
            return found
        together = Aggregates(self._key, aggregates)
        evictor = self._evictor()
        if evictor is None:
            return self._added(aggregated(rules, together), uid)
        return self._added(keeping(rules, evictor, Folded(together), self._storable()), uid)

    def reduce(self, function: Callable[[T, T], T], uid: str | None = None) -> S:
        """Return, for each window that emits, the one record that all of its records were reduced to.

        Args:
            function: returns one record of two: what was reduced so far, and the next one. It must give the
                same in whatever order the records come, and leave both as they are.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: `function` does not take two records, is async or :func:`blocking`; or the trigger is
                wrong, as for :meth:`aggregate`.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([(1_000, 5), (2_000, 8), (61_000, 3)])
            >>> timed = bids.with_event_time(lambda bid: bid[0])
            >>> minutes = timed.key_by(lambda bid: "all").window(hg.tumbling("1min"))
            >>> minutes.reduce(lambda left, right: max(left, right, key=lambda bid: bid[1])).collect()
            [(2000, 8), (61000, 3)]
        """
        where = f"reduce() ({user_site()})"
        if not callable(function):
            raise PlanError(f"{where} got {function!r}; expected a function of two records")
        refuse_arity(where, function, "two records", "of them")
        refuse_unawaited("reduce", function)
        refuse_blocking("reduce", function)
        rules, evictor, storable = self._rules.complete(where), self._evictor(), self._storable(function)
        if evictor is None:
            made = reduced(rules, function, storable)
        else:
            made = keeping(rules, evictor, Reduced(function), storable)
        kind = self._record_type() or inference.map_output(function)
        return self._added(made, uid, kind)

    def process(
        self,
        function: Callable[[K, Window, list[T], WindowContext], Iterable[Any]],
        uid: str | None = None,
    ) -> S:
        """Run a function on all records of each window that emits. Windows then keep their records.

        Args:
            function: gets key, window (`start` and `end` in ms), records, and a :class:`WindowContext`;
                yields or returns outputs. It leaves the records as they are: they may be needed again.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: `function` does not take these four arguments, or is async; or the trigger is wrong.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> def spread(key, window, records, ctx):
            ...     yield key, window.start, max(records) - min(records)
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> times = env.from_collection([1_000, 2_500, 61_000]).with_event_time(lambda at: at)
            >>> times.key_by(lambda at: "all").window(hg.tumbling("1min")).process(spread).collect()
            [('all', 0, 1500), ('all', 60000, 0)]
        """
        where = f"process() ({user_site()})"
        if not callable(function):
            raise PlanError(
                f"{where} got {function!r}; expected a function of key, window, records and context"
            )
        refuse_arity(where, function, "key", "window", "records", "context")
        refuse_unawaited("process", function)
        rules = self._rules.complete(where)
        made = keeping(rules, self._evictor(), Processed(function), self._storable())
        return self._added(made, uid, inference.flat_map_output(function), waits=is_blocking(function))

    def _with(self, rules: WindowRules) -> WindowedStream[K, T, S]:
        return WindowedStream(self._environment, self._number, self._key, rules, self._stream)

    def _demand_event_time(self, verb: str) -> None:
        assigner = self._rules.assigner
        if assigner.time is not TimeDomain.EVENT or not assigner.bounded:
            raise PlanError(
                f"{verb}() ({user_site()}): the windows are not of event time, so no record is late for them"
            )

    def _check_aggregates(self, where: str, aggregates: dict[str, Aggregate]) -> None:
        if not aggregates:
            raise PlanError(f"{where} got no aggregate; expected at least one, such as n=hg.count()")
        keys = names_of(self._key)
        if "window" in keys:
            raise PlanError(
                f"{where}: the key 'window' would be hidden by the window in the results; rename the field, "
                "or key by a function"
            )
        for name, each in aggregates.items():
            if not isinstance(each, Aggregate):
                raise PlanError(
                    f"{where} got {each!r} for {name!r}; expected an aggregate such as hg.count() or "
                    'hg.max("price")'
                )
            if name in ("window", *keys):
                raise PlanError(f"{where}: {name!r} is a field of the results already; choose another name")

    def _columns(self, aggregates: dict[str, Aggregate], uid: str | None) -> S | None:
        from headgate.api.windows.column_path import aggregated_columns  # it loads Arrow

        assigner = self._rules.assigner
        assert isinstance(assigner, SlidingWindows)
        return aggregated_columns(
            self._environment, self._number, self._key, assigner, aggregates, uid, self._stream
        )

    def _evictor(self) -> Evictor | None:
        return self._rules.evictor or self._rules.assigner.default_evictor()

    def _record_type(self) -> Hint | None:
        return self._environment.program.node(self._number).record_type

    def _storable(self, function: Callable[..., Any] | None = None) -> Storable:
        of_function = None if function is None else inference.map_output(function)
        return Storable(self._record_type() or of_function)

    def _added(
        self, function: WindowFunction, uid: str | None, kind: Hint | None = None, *, waits: bool = False
    ) -> S:
        program, selector = self._environment.program, self._key
        keys = inference.declared_keys(function, selector, program.node(self._number))
        node = WindowNode(
            NEW,
            "windows",
            uid=uid,
            record_type=kind,
            blocking=waits,
            function=function,
            key=selector,
            keys=keys,
        )
        return self._stream(self._environment, program.add(node, (self._number,)))


def windowed(
    environment: ProgramContext,
    number: int,
    key: Callable[[], KeySelector],
    assigner: WindowAssigner,
    stream: Callable[[ProgramContext, int], S],
) -> WindowedStream[Any, Any, S]:
    """Return stream `number` in windows of `assigner`, for ``window()``; `key` returns the stream's key
    selector, and `stream` makes a stream of a node's number. PlanError: `assigner` is no assigner.
    """
    if not isinstance(assigner, WindowAssigner):
        raise PlanError(
            f"window() ({user_site()}) got {assigner!r} of type {type(assigner).__name__}; expected windows "
            'such as hg.tumbling("1h")'
        )
    return WindowedStream(environment, number, key(), WindowRules(assigner), stream)
