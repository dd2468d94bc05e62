"""What must hold when a topology ran: output, order, final state, nothing late, readable cuts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from typing_extensions import override

from headgate.runtime.job.listener import JobListener
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.virtual_disk import URI, SimDisk
from sim.checkers import keyed_values, listed_values
from sim.metric_checks import MetricChecks
from sim.store import STORES, Store
from sim.topology import JUDGE, Topology
from sim.topology_answer import Answer, Lane, Stream, answer_of
from sim.topology_job import LATE, Counting, Judging, Noting

Row = tuple[str, str, int, int]


class TopologyChecks(Checks):
    """Everything that can be said about a topology's run.

    Args:
        topology: what runs.
        exactly_once: otherwise records may come again where alignment would have been needed.
        keep_stores: of a job that goes on from a checkpoint: what is published stays.
        order: whether lanes must be in order; another parallelism sends them other ways.

    Attributes:
        in_flight: records that completed checkpoints held beside state, altogether.
    """

    def __init__(
        self, topology: Topology, exactly_once: bool = True, keep_stores: bool = False, order: bool = True
    ) -> None:
        super().__init__()
        self.topology, self.answer = topology, answer_of(topology)
        self.metrics = MetricChecks()
        self._exactly_once, self._order, self.in_flight = exactly_once, order, 0
        LATE.clear()
        if not keep_stores:
            STORES.update({uid: Store() for uid in self.answer.sinks})

    @override
    def begins(self, world: JobScene) -> None:
        super().begins(world)

        def publishing(_: str) -> None:
            world.driver.reached("sink.publishing")

        def abandoning() -> None:
            world.driver.reached("sink.abandoning")

        for uid in self.answer.sinks:
            STORES[uid].on_publish, STORES[uid].on_abandon = publishing, abandoning

    @override
    def listener(self, scene: JobScene, driver: DriverProcess) -> JobListener:
        return self.metrics.listener(scene, driver, super().listener(scene, driver))

    @override
    def checkpoint(self, world: JobScene, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        point = world.master.checkpoints.points.latest
        cut = None if point is None else point.checkpoint
        if cut is None or cut.checkpoint != checkpoint:
            raise Violation(f"checkpoint {checkpoint} completed, but the latest is {cut and cut.checkpoint}")
        self.in_flight += records_in_flight(cut)

    @override
    def ended(self, world: JobScene) -> None:
        super().ended(world)
        complain(self.answer, self.published(), self._exactly_once, self._order and not self.rescaled)
        self._demand_final_state(world)
        stores = {uid: STORES[uid] for uid in self.answer.sinks}
        left = {uid: sorted(gone) for uid, it in stores.items() if (gone := it.prepared.keys() - it.held)}
        if left and len(world.drivers) == 1:
            raise Violation(f"prepared output was left behind: {left}")

    def published(self) -> dict[str, list[Row]]:
        """Sink uid -> its visible records, those of each subtask in order."""
        return {uid: STORES[uid].records() for uid in self.answer.sinks}

    def _demand_final_state(self, world: JobScene) -> None:
        point = world.master.checkpoints.points.latest
        cut = None if point is None else point.checkpoint
        if cut is None:
            raise Violation("the job ended without a checkpoint")
        assert point is not None
        disk = SimDisk.at(point.storage or URI, world.files)
        for uid, right in self.answer.counted.items():
            if not self._exactly_once and uid not in self.answer.free:
                continue
            step = self.topology.step(uid)
            function: Any = (Judging if step.verb == JUDGE else Counting)(step)
            counts = keyed_values(disk, cut, uid, function, "count")
            totals = keyed_values(disk, cut, uid, function, "total")
            found = {key: (counts[key], totals[key]) for key in counts}
            if found != right:
                raise Violation(
                    f"the final state of {uid!r} differs: {_differences(found, right)} "
                    f"(key, (count, sum) found, expected)"
                )
        for uid, idents in self.answer.noted.items():
            noted = self.noted(disk, cut, uid)
            if (self._exactly_once or uid in self.answer.free) and noted != idents:
                raise Violation(
                    f"the final list of {uid!r} misses {_some(idents - noted)}, has {_some(noted - idents)} "
                    "too many"
                )

    def noted(self, disk: SimDisk, cut: CheckpointMetadata, uid: str) -> Counter[str]:
        """The idents that a noting step has kept."""
        return listed_values(disk, cut, uid, Noting(self.topology.step(uid)), "noted")


def records_in_flight(cut: CheckpointMetadata) -> int:
    """Records that a checkpoint holds beside state."""
    return sum(part.records for stream in cut.in_flight for part in stream.parts)


def complain(
    answer: Answer, got: Mapping[str, list[Row]], exactly_once: bool = True, order: bool = True
) -> None:
    """Compare the sinks' records with the answer.

    Args:
        answer: what must come out.
        got: sink uid -> its records, those of each subtask in order.
        exactly_once: otherwise records may come again where alignment would have been needed.
        order: whether lanes must be in order.

    Raises:
        Violation: naming a sink and what is wrong with its records.
    """
    # A state that was ahead of the barrier has a clock that is ahead, too: what is repeated comes late.
    late = [found for found in LATE if exactly_once or found[0] in answer.free]
    if late:
        raise Violation(f"{len(late)} records came behind the watermark, first {late[0]}")
    for uid, stream in answer.sinks.items():
        exact = exactly_once or stream.free
        if uid in answer.sums:
            _demand_sums(uid, got[uid], answer.counted[answer.sums[uid]], stream, exact)
        else:
            _demand_records(uid, Counter(row[:3] for row in got[uid]), stream, exact)
        if order and exact and stream.ordered:
            _demand_order(uid, got[uid], stream)


def _demand_records(uid: str, got: Counter[Any], stream: Stream, exact: bool) -> None:
    right = stream.facts
    if not exact:
        right = Counter(told.fact for told in stream.told if told.sure)
    missing, surplus = right - got, got - right
    if missing or (surplus and exact):
        raise Violation(
            f"sink {uid!r} holds {got.total()} records, expected {right.total()}; "
            f"{missing.total()} missing {_some(missing)}; {surplus.total()} too many {_some(surplus)}"
        )


def _demand_sums(
    uid: str, got: Iterable[Row], right: Mapping[str, tuple[int, int]], stream: Stream, exact: bool
) -> None:
    rows = list(got)
    idents, expected = Counter(row[0] for row in rows), Counter(told.item.ident for told in stream.told)
    if expected - idents or (exact and idents != expected):
        raise Violation(
            f"sink {uid!r} holds running sums {_some(idents - expected)} too many, "
            f"misses {_some(expected - idents)}"
        )
    if not exact:
        return
    last = {key: value for ident, key, value, _ in rows if ident == f"{key}/{right[key][0]:04d}"}
    sums = {key: total for key, (_, total) in right.items()}
    # Behind a broadcast each number comes as often as there are subtasks, always with the same sum.
    if last != sums:
        raise Violation(f"the last sums in sink {uid!r} differ: {_differences(last, sums)}")


def _demand_order(uid: str, got: Iterable[Row], stream: Stream) -> None:
    place = {told.item.ident: (told.lane, told.rank) for told in stream.told}
    lanes: dict[Lane, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
    for row in got:
        lane, rank = place[row[0]]
        lanes[lane].append((rank, row[0]))
    for lane, ranks in lanes.items():
        for before, after in pairwise(ranks):
            if after[0] <= before[0]:
                raise Violation(f"in sink {uid!r}, lane {lane}: {after[1]} came after {before[1]}")


def _differences(found: Mapping[str, Any], right: Mapping[str, Any]) -> list[Any]:
    keys = sorted(found.keys() | right.keys())
    return [(k, found.get(k), right.get(k)) for k in keys if found.get(k) != right.get(k)][:4]


def _some(records: Counter[Any]) -> str:
    shown = sorted(records.items(), key=repr)
    return f"{shown[:4]}{'...' if len(shown) > 4 else ''}"
