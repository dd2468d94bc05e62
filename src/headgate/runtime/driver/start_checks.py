"""Checks whether a job can start from the snapshot that its user named.

The driver runs them before it claims the snapshot or starts workers; `headgate check-upgrade` runs the same
for a program that does not run. Errors that show only when stored state is read are found by `state/` and the
operators, for which the command has checks of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from headgate.api.source import Split
from headgate.common.errors import StrayPathError, UsageError
from headgate.common.ids import JobId
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.restore.assignment import SPLITS, called, check_compatible
from headgate.restore.in_flight_shares import assign_in_flight
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.state.snapshots import CheckpointMetadata

Check = Callable[[], None]
"""One check; raises UsageError with the reason if the job cannot start from the snapshot."""


def with_stored_groups(plan: PhysicalPlan, config: Config, checkpoint: CheckpointMetadata) -> PhysicalPlan:
    """Return the plan with the snapshot's number of key groups, unless the program sets max parallelism.
    Raises UsageError if the parallelism of an operator exceeds that number.
    """
    if config.is_set(o.MAX_PARALLELISM):
        return plan
    groups, widest = checkpoint.max_parallelism, max((v.parallelism for v in plan.vertices), default=1)
    if widest > groups:
        raise UsageError(
            f"{called(checkpoint)} has {groups} key groups, and parallelism {widest} needs as many; run the "
            f"program at a parallelism of at most {groups}, or have headgate savepoint reslice make another "
            "snapshot of it"
        )
    return dataclasses.replace(plan, max_parallelism=groups)


def checks(config: Config, job: JobId, plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> Iterator[Check]:
    """Yield, in order, the checks of whether a job can start from `checkpoint`; none changes anything.
    `plan` has the snapshot's number of key groups; `job` is the id to run under, the snapshot's if the start
    continues its job. Each check raises UsageError.
    """
    ignore = config.get(o.IGNORE_UNCLAIMED_STATE)
    yield lambda: check_compatible(plan, checkpoint, ignore_unclaimed=ignore)
    yield lambda: _check_in_flight(plan, checkpoint)
    for vertex in plan.vertices:
        for node in vertex.chain:
            if isinstance(node, SourceNode):
                yield lambda node=node: _check_source(node, checkpoint)  # type: ignore[misc]
    yield lambda: Committers(job, 1, plan, config.get(o.OLDER_SNAPSHOT)).check(checkpoint)


def _check_in_flight(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> None:
    assign_in_flight(plan, checkpoint)


def _check_source(node: SourceNode, checkpoint: CheckpointMetadata) -> None:
    uid = node.known_as
    entries = [
        entry for state in checkpoint.operators.get(uid, ()) for entry in state.list_state.get(SPLITS, ())
    ]
    rest = checkpoint.enumerators.get(uid)
    if entries or rest is not None:
        try:
            node.source.check_restore(rest, [Split(name, position) for name, position, *_ in entries])
        except (UsageError, StrayPathError) as error:
            raise UsageError(f"source {uid!r} cannot go on from {called(checkpoint)}: {error}") from error
