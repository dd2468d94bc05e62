"""Replays a key from checkpoint to checkpoint, until the function fails or the state is not as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.checkpoint.layout import METADATA, log_folder
from headgate.checkpoint.store.log import readable_entries
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.offline.inspecting import Answer, answered
from headgate.offline.replay.in_program import STORED, Snapshots, replayed
from headgate.offline.replay.replay_report import ReplayReport, ReplayRequest
from headgate.state.snapshots import CheckpointMetadata

INSPECTOR: Final = "headgate.offline.replay.to_failure:inspect"


def inspect(
    request: ReplayRequest, nodes: Sequence[Node], plan: PhysicalPlan, config: Config
) -> Answer[ReplayReport]:
    """Return the report of a replay by the plan that was captured, or the error that refused it."""
    found = replayed_to_failure if request["until_failure"] else replayed
    return answered(config, lambda: found(request, nodes, plan, config))


def replayed_to_failure(
    request: ReplayRequest,
    nodes: Sequence[Node],
    plan: PhysicalPlan,
    config: Config,
    snapshots: Snapshots = STORED,
) -> ReplayReport:
    """Return the report of the first stretch, from one checkpoint that is stored to the next, in which user
    code raises or after which the state differs without a reason; of the one after the last checkpoint, if
    there is none before. Raises what :func:`replayed` raises.
    """
    passed: list[int] = []
    begins = request["snapshot"]
    # A file with records is in place of all input, from the first checkpoint on.
    later = [] if request["records"] is not None else _later(*snapshots.opened(begins))
    for number, place in later:
        found = replayed(_stretch(request, begins, place), nodes, plan, config, snapshots)
        if fails(found):
            break
        passed.append(number)
        begins = place
    else:
        place = None
        found = None
    if found is None or request["save"] is not None or request["debug"]:
        last = request.copy()
        last.update({"snapshot": begins, "to": place})
        found = replayed(last, nodes, plan, config, snapshots)
    return msgspec.structs.replace(found, passed=passed)


def fails(found: ReplayReport) -> bool:
    """Return whether user code has raised, or the state differs and nothing says why it may."""
    return found.failure is not None or (bool(found.differences) and not found.inexact)


def _stretch(request: ReplayRequest, begins: str, to: str) -> ReplayRequest:
    # Neither a test nor a debugger before it is known that something is wrong.
    stretch = request.copy()
    stretch.update({"snapshot": begins, "to": to, "save": None, "debug": False})
    return stretch


def _later(disk: Disk, begins: CheckpointMetadata) -> list[tuple[int, str]]:
    """Return the checkpoints after `begins` that its job has completed and that are stored, the oldest first,
    each with its number and URI; a savepoint by itself has none.
    """
    stored = readable_entries(disk, log_folder(JobId(begins.job)))
    return [
        (entry.checkpoint, disk.describe(entry.metadata.removesuffix(f"/{METADATA}")))
        for entry in stored
        if entry.checkpoint > begins.checkpoint and "://" not in entry.metadata
    ]
