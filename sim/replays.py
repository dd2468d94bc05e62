"""One seed, one key replayed: a simulated job that keeps its checkpoints, a key, one checkpoint to the next.

Where the report names no reason for a difference, the state is that of the next checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from typing_extensions import override

from headgate.api.jobs.executor_contract import JobSpec
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.keys.key_text import key_text
from headgate.graph.logical import KeyedProcessNode
from headgate.offline.replay.in_program import Snapshots, follows, replayed
from headgate.offline.replay.replay_report import ReplayReport, ReplayRequest
from headgate.offline.replay.unlike import unlike
from headgate.offline.rewriting import keyed_handles
from headgate.state.snapshots import CheckpointMetadata
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import KeysOnly
from headgate.testing.simulation.drivers import JobScene
from headgate.testing.simulation.faults import ALL_FAULTS, MIXES
from headgate.testing.simulation.invariants import Checks
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.virtual_disk import URI, SimDisk, SimFiles
from headgate.testing.simulation.world import World
from sim.checkers import ExactlyOnce
from sim.runs import DATA_SEEDS, IN_FILES
from sim.topology import draw_topology
from sim.topology_checks import TopologyChecks
from sim.topology_job import build
from sim.topology_runs import MODES, SETTINGS, mode_of
from sim.workload import streaks, two_stages
from sim.worlds import CostlyWorld

KEEP: Final[Mapping[str, Any]] = {"execution.checkpointing.num-retained": 1000}
LEAST_KEPT: Final = 3
KEYS_TRIED: Final = 4


@dataclass(frozen=True)
class Triple:
    """A replay of one key from one checkpoint to the next.

    Attributes:
        seed: which decided everything.
        uid: of the operator.
        key: of it.
        report: of the replay.
        again: what a second replay did otherwise.
    """

    seed: int
    uid: str
    key: Hashable
    report: ReplayReport
    again: list[str]

    @property
    def violation(self) -> str | None:
        """What is wrong; None if nothing is."""
        report = self.report
        if report.failure is not None:
            return f"user code raised: {report.failure}"
        if self.again:
            return f"two replays differ: {self.again}"
        if report.differences and not report.inexact:
            return f"the state differs, and nothing says why it may: {report.differences}"
        return None

    def tell(self) -> str:
        """The triple in one line."""
        report = self.report
        return (
            f"seed {self.seed}: {self.uid!r}, key {self.key!r}, checkpoint {report.begins} to {report.ends}, "
            f"{len(report.steps)} steps: {self.violation or 'as recorded'}"
        )


def _name(cut: CheckpointMetadata) -> str:
    return f"{cut.job}/{cut.checkpoint}"


class _Keeping(Checks):
    """Notes which checkpoints complete."""

    kept: dict[str, CheckpointMetadata]

    @override
    def begins(self, scene: JobScene) -> None:
        super().begins(scene)
        self.kept = {}

    @override
    def checkpoint(self, scene: JobScene, checkpoint: int) -> None:
        super().checkpoint(scene, checkpoint)
        point = scene.master.checkpoints.points.latest
        if point is not None and self.leads(scene.driver):
            self.kept[_name(point.checkpoint)] = point.checkpoint


class _OfKnown(_Keeping, ExactlyOnce):
    """Of a known job."""


class _OfRandom(_Keeping, TopologyChecks):
    """Of a random topology."""


def replay_seed(seed: int) -> Triple | None:
    """Simulate a job and replay a key of it; None if it kept fewer than three checkpoints, or has no keys.

    Raises:
        AssertionError: the simulation itself found a violation.
    """
    job, checks, files = _simulated(seed)
    kept = list(checks.kept.values())
    rng = random.Random(f"{seed} replay")
    nodes = [node for node in _keyed(job) if node.uid is not None]
    pairs = [pair for pair in pairwise(kept) if follows(pair[1], pair[0])]
    if len(kept) < LEAST_KEPT or not pairs or not nodes:
        return None
    pair, node = rng.choice(pairs), rng.choice(nodes)
    disk = SimDisk.at(URI, files)
    keys = sorted({key for cut in pair for key in _keys(disk, cut, node)}, key=repr)
    if not keys:
        return None
    snapshots = Snapshots(lambda uri: (disk, checks.kept[uri]), lambda _: disk)
    uid = node.uid or ""
    for key in rng.sample(keys, min(KEYS_TRIED, len(keys))):
        first = _replayed(job, uid, key, pair, snapshots)
        if first.steps:  # of a key without records there is little to see
            break
    return Triple(seed, uid, key, first, unlike(first, _replayed(job, uid, key, pair, snapshots)))


def _replayed(
    job: JobSpec,
    uid: str,
    key: Hashable,
    pair: tuple[CheckpointMetadata, CheckpointMetadata],
    snapshots: Snapshots,
) -> ReplayReport:
    begins, ends = map(_name, pair)
    request: ReplayRequest = {
        "program": job.name,
        "uid": uid,
        "key": key_text(key),
        "snapshot": begins,
        "to": ends,
        "count": None,
        "records": None,
        "save": None,
        "side_effects": True,
        "until_failure": False,
        "debug": False,
    }
    return replayed(request, job.nodes, job.plan, job.config, snapshots)


def _keyed(job: JobSpec) -> list[KeyedProcessNode]:
    nodes = [node for vertex in job.plan.vertices for node in vertex.chain]
    return [node for node in nodes if isinstance(node, KeyedProcessNode)]


def _keys(disk: SimDisk, cut: CheckpointMetadata, node: KeyedProcessNode) -> set[Hashable]:
    files, stored = DiskFiles(disk), keyed_handles(cut.operators.get(node.uid or "", []))
    chunks = (stored_chunks(files, keyed, KeysOnly(), cut.max_parallelism) for keyed in stored)
    return {key for found in chunks for chunk in found for key in chunk.keys}


def _simulated(seed: int) -> tuple[JobSpec, _Keeping, SimFiles]:
    made = _known if seed % 2 else _random
    world = made(seed)
    outcome = world.run()
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}"
    assert isinstance(world.checks, _Keeping)
    return world.job, world.checks, world.files


def _known(seed: int) -> World:
    rng = random.Random(f"{seed} job of a replay")
    workload = rng.choice((streaks, streaks, two_stages))(rng.randrange(DATA_SEEDS))
    settings = {**rng.choice(({}, IN_FILES)), **KEEP}
    job, _ = job_of(workload.build, workload.name, rng.choice((1, 1, 1, 2, 3)), settings)
    return World(job, seed, MIXES["default"], _OfKnown(workload))


def _random(seed: int) -> World:
    topology = draw_topology(seed)
    settings = {**SETTINGS, **topology.settings, **MODES[mode_of(seed)], **KEEP}
    job, _ = job_of(lambda env: build(topology, env), f"topology-{seed}", 1, settings)
    checks = _OfRandom(topology, exactly_once=mode_of(seed) != "at-least-once")
    return CostlyWorld(job, seed, ALL_FAULTS, checks)
