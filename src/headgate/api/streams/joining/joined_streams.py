"""Two streams that are joined: by which keys, in which interval of event time, and what becomes of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.api.checking import inference
from headgate.api.checking.arguments import refuse_arity, refuse_blocking, refuse_unawaited
from headgate.api.showing import ShownAsLine
from headgate.api.site import user_site
from headgate.api.streams.joining.join_function import JoinRules, join_function
from headgate.api.streams.joining.tagged_records import Side, Tagger, common_key, tagged_type, without_none
from headgate.api.streams.steps import ProgramContext, checked_key
from headgate.api.streams.stream_outputs import Outputs
from headgate.api.tables.joins.kinds_and_bounds import Within, bounds_of
from headgate.api.windows.record_fields import getter_of
from headgate.api.windows.window_states import Storable
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.keys.key_types import fits
from headgate.graph.logical import NEW, FlatMapNode, PartitionNode, UnionNode
from headgate.graph.partitioners import ByKeyGroup
from headgate.graph.stream_joins import StreamJoinNode

L = TypeVar("L")
R = TypeVar("R")
V = TypeVar("V")
S = TypeVar("S", bound=Outputs[Any])

Key = str | Callable[[Any], Any]


class JoinSettings(NamedTuple):
    """What calls have said of a join; None where a call was not made."""

    how: str
    keys: tuple[Key, Key] | None = None
    bounds: tuple[int, int] | None = None


class JoinedStreams(ShownAsLine, Generic[L, R, S]):
    """Two streams, of records of types `L` and `R`, that are joined: ``where()`` and ``within()`` say which
    records are a pair, and ``apply()`` makes a stream of the pairs.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> def stream(records):
        ...     return env.from_collection(records).with_event_time("at")
        >>> shown = stream([{"ad": 1, "at": 1_000}, {"ad": 2, "at": 2_000}])
        >>> clicks = stream([{"of": 1, "at": 4_000}, {"of": 2, "at": 9_000}])
        >>> both = shown.join(clicks, "left").where("ad", "of").within("5s")
        >>> found = both.apply(lambda ad, click: (ad["ad"], click and click["at"]), uid="clicked")
        >>> sorted(found.collect())
        [(1, 4000), (2, None)]
    """

    def __init__(
        self,
        environment: ProgramContext,
        numbers: tuple[int, int],
        settings: JoinSettings,
        stream: Callable[[ProgramContext, int], S],
    ) -> None:
        self._environment, self._numbers = environment, numbers
        self._settings, self._stream = settings, stream

    def __repr__(self) -> str:
        left, right = map(self._environment.program.node, self._numbers)
        return f"<JoinedStreams of {left.name!r} ({left.site}) with {right.name!r} ({right.site})>"

    def where(
        self, left: str | Callable[[L], object], right: str | Callable[[R], object] | None = None
    ) -> JoinedStreams[L, R, S]:
        """Join records whose keys are equal. A key that is None, or a tuple with None in it, equals nothing.

        Args:
            left: a field of this stream's records, or a function of one of them.
            right: the same for the other stream; None: as `left`.

        Raises:
            PlanError: neither name nor function (not ``async``, not :func:`blocking`), a field that the
                source's records lack, a type that cannot be a key, or two types that are never equal.
        """
        keys = left, left if right is None else right
        for number, key in zip(self._numbers, keys, strict=True):
            checked_key(self._environment, number, key, (), "where")
        self._refuse_different(keys)
        return self._with(self._settings._replace(keys=keys))

    def within(self, lower: str | int, upper: str | int | None = None) -> JoinedStreams[L, R, S]:
        """Join records that are close in time: the event time of the other stream's record minus that of this
        stream's is from `lower` to `upper`, both included.

        Args:
            lower: a duration such as ``"-5s"``, or ms; without `upper` it is the upper bound, with 0 as the
                lower.
            upper: a duration, or ms.

        Raises:
            PlanError: a bound is no duration, or `lower` is above `upper`.
        """
        given: Within = lower if upper is None else (lower, upper)
        bounds = bounds_of(f"within() ({user_site()})", given)
        return self._with(self._settings._replace(bounds=bounds))

    def apply(self, function: Callable[[L, R], V], uid: str | None = None) -> S:
        """Return a stream of the one record that `function` returns for each pair.

        A pair comes out as soon as its second record has come, at the later one of their event times. A
        record without partner comes out when the watermark has passed it so far that none can come, at that
        time. Late records are dropped and counted.

        Args:
            function: gets a record of each stream and leaves both as they are. In a join of kind "left",
                "right" or "full" the side that has no partner is None.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: ``where()`` or ``within()`` is missing, or `function` does not take two records, is
                async or :func:`blocking`.
        """
        return self._joined("apply", function, uid)

    def flat_apply(self, function: Callable[[L, R], Iterable[V] | None], uid: str | None = None) -> S:
        """Return a stream of all records of the iterable (None: no record) that `function` returns for each
        pair. All else is as in :meth:`apply`.
        """
        return self._joined("flat_apply", function, uid)

    def _with(self, settings: JoinSettings) -> JoinedStreams[L, R, S]:
        return JoinedStreams(self._environment, self._numbers, settings, self._stream)

    def _joined(self, verb: str, function: Callable[[L, R], Any], uid: str | None) -> S:
        _check_function(verb, function)
        how, keys, bounds = self._settings
        if keys is None or bounds is None:
            lacks = "where(), which says by which keys" if keys is None else "within(), which bounds times"
            example = f'a.join(b).where("id").within("5s").{verb}(f)'
            raise PlanError(f"{verb}() ({user_site()}) needs {lacks}, as in {example}")
        comes_alone = how in ("left", "full"), how in ("right", "full")
        sides = [
            Side(Storable(self._hint(number), "a join"), getter_of(key), alone)
            for number, key, alone in zip(self._numbers, keys, comes_alone, strict=True)
        ]
        key = common_key(self._key_hints(keys), may_lack=any(comes_alone))
        flat = verb == "flat_apply"
        made = join_function(JoinRules(*bounds, comes_alone, function, flat), sides)
        by_key = self._by_key(sides, key)
        kind = inference.flat_map_output(function) if flat else inference.map_output(function)
        declared = inference.declared_keys(made, "key", self._environment.program.node(by_key))
        node = StreamJoinNode(
            NEW, "join", (), uid, None, kind, function=made, key="key", keys=declared, how=how,
            lower_ms=bounds[0], upper_ms=bounds[1],
        )  # fmt: skip
        return self._stream(self._environment, self._environment.program.add(node, (by_key,)))

    def _by_key(self, sides: list[Side], key: Hint) -> int:
        """Add the steps that send tagged records of both streams to the subtasks of their keys."""
        program, kind = self._environment.program, tagged_type(sides, key)
        inputs = [
            program.add(
                FlatMapNode(NEW, name, record_type=kind, function=Tagger(each, side, kind, key)), (number,)
            )
            for each, (name, side, number) in enumerate(
                zip(("left of a join", "right of a join"), sides, self._numbers, strict=True)
            )
        ]
        union = program.add(UnionNode(NEW, "both inputs", record_type=kind), tuple(inputs))
        exchange = PartitionNode(NEW, "join", record_type=kind, partitioner=ByKeyGroup("key"))
        return program.add(exchange, (union,))

    def _hint(self, number: int) -> Hint | None:
        return self._environment.program.node(number).record_type

    def _key_hints(self, keys: tuple[Key, Key]) -> list[Hint | None]:
        return [
            inference.map_output(key)
            if callable(key)
            else inference.known(inference.field_hint(self._hint(number), key))
            for number, key in zip(self._numbers, keys, strict=True)
        ]

    def _refuse_different(self, keys: tuple[Key, Key]) -> None:
        left, right = map(without_none, self._key_hints(keys))
        if not (isinstance(left, type) and isinstance(right, type)):
            return
        if not (fits(left, right) or fits(right, left)):
            raise PlanError(
                f"where() ({user_site()}) compares {left.__name__} with {right.__name__}, which are never "
                "equal; convert one of them by a function of the record"
            )


def _check_function(verb: str, function: object) -> None:
    """Raise PlanError unless call `verb` got a function of two records that the worker's loop can call."""
    where = f"{verb}() ({user_site()})"
    if not callable(function):
        raise PlanError(f"{where} got {function!r}; expected a function of a record of each stream")
    refuse_arity(where, function, "a left record", "a right one")
    refuse_unawaited(verb, function)
    refuse_blocking(verb, function)
