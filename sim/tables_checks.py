"""What must hold when a topology with tables ran: its rows, and that no record is late, or none is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from typing_extensions import override

from headgate.restore.point import RestorePoint
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.invariants import Checks, Violation
from sim.late_counts import LateCounts
from sim.store import STORES, Store
from sim.tables_answer import Fixed, TableRow, TablesAnswer, tables_answer
from sim.topology import Topology
from sim.topology_checks import records_in_flight


class TablesChecks(Checks):
    """Everything that can be said about the run of a topology with tables.

    Args:
        topology: what runs.
        exactly_once: otherwise records may come again.
        late: whether records may come behind the watermark.

    Attributes:
        in_flight: records that completed checkpoints held beside state, altogether.
        late_counts: of the operators of windows.
        dropped: how many records were late, at the end.
    """

    def __init__(self, topology: Topology, exactly_once: bool, late: bool) -> None:
        super().__init__()
        self.topology, self.answer = topology, tables_answer(topology)
        self._exactly_once, self._late = exactly_once, late
        self.in_flight, self.late_counts, self.dropped = 0, LateCounts(), 0
        STORES.update({uid: Store() for uid in self.answer.sinks})

    @override
    def begins(self, world: JobScene) -> None:
        super().begins(world)
        for uid in self.answer.sinks:
            STORES[uid].on_publish = lambda _: world.driver.reached("sink.publishing")
            STORES[uid].on_abandon = lambda: world.driver.reached("sink.abandoning")

    @override
    def deploying(self, world: JobScene, driver: DriverProcess, attempt: int, checkpoint: int | None) -> None:
        super().deploying(world, driver, attempt, checkpoint)
        deployment = (str(driver.job_id), driver.generation, attempt)
        self.late_counts.begins(deployment, self._cut(driver, checkpoint))

    @override
    def checkpoint(self, world: JobScene, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        cut = _latest(world.master.checkpoints.points.latest)
        if cut is None or cut.checkpoint != checkpoint:
            raise Violation(f"checkpoint {checkpoint} completed, but the latest is {cut and cut.checkpoint}")
        self.in_flight += records_in_flight(cut)

    @override
    def ended(self, world: JobScene) -> None:
        super().ended(world)
        cut = _latest(world.master.checkpoints.points.latest)
        if cut is None:
            raise Violation("the job ended without a checkpoint")
        late = self.late_counts.at(cut)
        self.dropped = late.total()
        for uid, step in self.answer.sinks.items():
            rows = [TableRow(*row) for row in STORES[uid].records()]
            if self._late:
                demand_consistent(uid, rows, self.answer, step, late[step], self._exactly_once)
            else:
                demand_rows(uid, rows, self.answer.tables[step], self._exactly_once)
        if self.dropped and self._exactly_once and not self._late:
            raise Violation(f"records were dropped as late: {dict(late)}")
        stores = {uid: STORES[uid] for uid in self.answer.sinks}
        left = {uid: sorted(gone) for uid, it in stores.items() if (gone := it.prepared.keys() - it.held)}
        if left and len(world.drivers) == 1:
            raise Violation(f"prepared output was left behind: {left}")

    def _cut(self, driver: DriverProcess, checkpoint: int | None) -> CheckpointMetadata | None:
        """The checkpoint of a job's log, or the one from which it was submitted."""
        for entry in self.stored.completed(driver.job_id):
            if entry.checkpoint == checkpoint:
                return self.stored.metadata(entry)
        return None if checkpoint is None else _latest(driver.submission.point)


def _latest(point: RestorePoint | None) -> CheckpointMetadata | None:
    return None if point is None else point.checkpoint


def demand_rows(uid: str, got: Iterable[TableRow], right: Iterable[TableRow], exact: bool) -> None:
    """Compare the rows of a sink with the answer.

    Args:
        uid: of the sink.
        got: its rows.
        right: the answer.
        exact: otherwise records, and rows, may have come again: counts and totals may be larger.

    Raises:
        Violation: with some rows that are missing, and some that are too many.
    """
    found, wanted = Counter(got), Counter(right)
    if exact:
        missing, surplus = wanted - found, found - wanted
    else:
        least = {row.fixed: row.sums for row in wanted}
        missing = Counter(set(least) - {row.fixed for row in found})
        surplus = Counter(row for row in found if not _grown(least.get(row.fixed), row.sums))
    if missing or surplus:
        raise Violation(
            f"sink {uid!r} holds {found.total()} rows, expected {wanted.total()}; {missing.total()} missing "
            f"{_some(missing)}; {surplus.total()} wrong or too many {_some(surplus)}"
        )


def _grown(least: tuple[int | None, ...] | None, sums: tuple[int | None, ...]) -> bool:
    if least is None:
        return False
    return all(a == b if a is None or b is None else a <= b for a, b in zip(least, sums, strict=True))


def demand_consistent(
    uid: str, got: list[TableRow], answer: TablesAnswer, step: str, late: int, exact: bool
) -> None:
    """Check windows of records of which some were late: each is in one window, or counted as late.

    Args:
        uid: of the sink.
        got: its rows.
        answer: what would come out if none were late.
        step: uid of the table.
        late: how many were counted as late.
        exact: otherwise records, and rows, may have come again.

    Raises:
        Violation: some records are in no window and not counted, or twice; or windows are wrong.
    """
    counted, read = sum(row.sums[0] or 0 for row in got), answer.read[step]
    if counted + late != read if exact else counted + late < read:
        raise Violation(
            f"sink {uid!r} has windows of {counted} records, and {late} were late, of {read} that were read"
        )
    if exact:
        _demand_once(uid, got)
    whole: dict[int | None, list[TableRow]] = defaultdict(list)
    for row in answer.tables[step]:
        whole[row.fixed.key].append(row)
    for row in got:
        if not any(_within(row, other, exact) for other in whole[row.fixed.key]):
            raise Violation(f"sink {uid!r} has {row}, which is no part of the window of {_near(row, whole)}")


def _demand_once(uid: str, got: Iterable[TableRow]) -> None:
    """No two windows of a key end at one time; sessions may overlap, as what is sent out grows no longer."""
    ends = Counter((row.fixed.key, row.fixed.end) for row in got)
    twice = [where for where, times in ends.items() if times > 1]
    if twice:
        raise Violation(
            f"sink {uid!r} has several windows of a key with one end: {sorted(twice, key=repr)[:4]}"
        )


def _within(part: TableRow, whole: TableRow, exact: bool) -> bool:
    low, high = whole.fixed.extremes
    least, most = part.fixed.extremes
    assert low is not None and high is not None and least is not None and most is not None  # noqa: PT018
    inside = whole.fixed.start <= part.fixed.start and part.fixed.end <= whole.fixed.end
    return inside and low <= least and most <= high and (not exact or _grown(part.sums, whole.sums))


def _near(row: TableRow, whole: dict[int | None, list[TableRow]]) -> list[TableRow]:
    return [other for other in whole[row.fixed.key] if other.fixed.start <= row.fixed.start < other.fixed.end]


def _some(rows: Counter[TableRow] | Counter[Fixed]) -> str:
    shown = sorted(rows.items(), key=repr)
    return f"{shown[:4]}{'...' if len(shown) > 4 else ''}"
