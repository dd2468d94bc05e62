"""Replays a key in the process of the program, where its classes are at hand, and reports what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from headgate.api.declared.keyed_states import declared_state
from headgate.api.jobs.launch_settings import user_code
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import UsageError
from headgate.common.keys.key_text import key_of_text
from headgate.common.ports import Disk
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types
from headgate.offline.keyed_verdicts import targets_of
from headgate.offline.replay.cutting import Cut, cut
from headgate.offline.replay.debugging import Debugger
from headgate.offline.replay.exactness import reasons
from headgate.offline.replay.keyed_part import KeyReader, shown
from headgate.offline.replay.not_replayable import check_functions, check_sources
from headgate.offline.replay.records_file import with_records
from headgate.offline.replay.replay_report import Difference, ReplayReport, ReplayRequest
from headgate.offline.replay.row_tap import RowTap
from headgate.offline.replay.running import Replay
from headgate.offline.replay.saving import check_free, check_savable, save_test
from headgate.offline.replay.tap import Tap, changes
from headgate.offline.rewriting import keyed_handles
from headgate.runtime.driver.start_checks import with_stored_groups
from headgate.runtime.job.job_settings import job_settings
from headgate.state.snapshots import CheckpointMetadata


class Snapshots(NamedTuple):
    """Opens stored snapshots: `opened` by the URI that was given, `disk` the storage that files are in."""

    opened: Callable[[str], tuple[Disk, CheckpointMetadata]] = open_checkpoint
    disk: Callable[[str], Disk] = open_disk


STORED: Final = Snapshots()


def replayed(
    request: ReplayRequest,
    nodes: Sequence[Node],
    plan: PhysicalPlan,
    config: Config,
    snapshots: Snapshots = STORED,
) -> ReplayReport:
    """Return the report of a replay by a plan of this process; raise what `replaying.replay` raises."""
    disk, begins = snapshots.opened(request["snapshot"])
    until = None if request["to"] is None else _later(snapshots.opened(request["to"]), begins)
    lived = begins if until is None else until[1]
    plan = with_stored_groups(plan, config, begins)
    part = _prepared(request, nodes, plan, begins, lived)
    settings, code = job_settings(config).worker, user_code() or SAME_INTERPRETER
    targets = targets_of(declared_state(part.node.function))
    drop = settings.ignore_unclaimed
    reader = KeyReader(part.key, part.key_group, plan.max_parallelism, targets, drop=drop)
    ends = None if until is None else until[1]
    endless = request["until_failure"]
    replay = Replay(part, disk, begins, ends, settings, reader, code, snapshots.disk, endless=endless)
    tap = _run(replay, request)
    began = shown(reader.read(disk, keyed_handles(begins.operators.get(request["uid"], []))))
    if request["save"] is not None and isinstance(tap, RowTap):
        check_free(part, began, tap.steps)
        save_test(request["save"], request["program"], part, tap.played())
    differences = None if until is None else _differences(replay, reader, *until, request["uid"])
    return _report(request, part, begins, ends, replay, tap, began, differences)


def _run(replay: Replay, request: ReplayRequest) -> Tap:
    def began(tap: Tap) -> None:
        if request["save"] is not None:
            check_savable(replay.cut)
            assert isinstance(tap, RowTap)
            tap.record_all()

    if not request["debug"]:
        return replay.run(request["count"], lambda _: None, began)
    debugger = Debugger(replay.cut.node.function)
    try:
        tap = replay.run(request["count"], debugger.before, began)
    finally:
        debugger.close()
    if tap.raised is not None:
        debugger.after_failure(tap.raised)
    return tap


def _prepared(
    request: ReplayRequest,
    nodes: Sequence[Node],
    plan: PhysicalPlan,
    begins: CheckpointMetadata,
    lived: CheckpointMetadata,
) -> Cut:
    types, key = edge_record_types(nodes, plan), key_of_text(request["key"])
    part = cut(plan, types, request["uid"], key, lived.parallelism)
    if request["records"] is not None:
        part = with_records(part, request["records"])
    ends = request["to"] is not None or request["count"] is not None or request["until_failure"]
    check_sources(part, begins, bounded=ends)
    check_functions(part, side_effects=request["side_effects"])
    return part.in_the_loop()


def _later(
    opened: tuple[Disk, CheckpointMetadata], begins: CheckpointMetadata
) -> tuple[Disk, CheckpointMetadata]:
    disk, found = opened
    if not follows(found, begins):
        raise UsageError(
            f"--to is {found.kind} {found.checkpoint} of job {found.job_name!r}, and --from is {begins.kind} "
            f"{begins.checkpoint} of job {begins.job_name!r}; expected a later one of the same run, or of "
            "one that was begun from it"
        )
    return disk, found


def follows(found: CheckpointMetadata, begins: CheckpointMetadata) -> bool:
    """Return whether snapshot `found` was taken after `begins`: by the same job, or by one that descends from
    it or from a later one of the same job.
    """
    if found.job == begins.job:
        return found.checkpoint > begins.checkpoint
    return any(fork.job == begins.job and fork.checkpoint >= begins.checkpoint for fork in found.forks)


def _differences(
    replay: Replay, reader: KeyReader, disk: Disk, until: CheckpointMetadata, uid: str
) -> list[Difference] | None:
    if replay.state is None:
        return None
    recorded = reader.read(disk, keyed_handles(until.operators.get(uid, [])))
    replayed = reader.read(None, keyed_handles([replay.state]))
    if reader.encoded(recorded) == reader.encoded(replayed):
        return []
    found = [
        Difference(each.state, each.before, each.after) for each in changes(shown(replayed), shown(recorded))
    ]
    return found or [Difference("bytes of the state", None, None)]


def _report(
    request: ReplayRequest,
    part: Cut,
    begins: CheckpointMetadata,
    ends: CheckpointMetadata | None,
    replay: Replay,
    tap: Tap,
    began: dict[str, str],
    differences: list[Difference] | None,
) -> ReplayReport:
    return ReplayReport(
        uid=request["uid"],
        key=repr(part.key),
        operator=part.node.name,
        subtask=part.subtask,
        key_group=part.key_group,
        job=begins.job_name,
        begins=begins.checkpoint,
        ends=None if ends is None else ends.checkpoint,
        state=changes({}, began),
        steps=tap.steps,
        records_read=tap.read,
        ended=replay.ended,
        differences=differences,
        inexact=reasons(part, begins, ends, replay, tap),
        failure=replay.failure,
    )
