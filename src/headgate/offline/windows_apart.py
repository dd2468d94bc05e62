"""Refuses new key groups for windowed aggregations of tables whose subtasks have different watermarks."""

from __future__ import annotations

from typing import Final

from headgate.common.errors import UsageError
from headgate.state.snapshots import CheckpointMetadata

_STATES: Final = frozenset({"windows", "ahead"})
"""Names of the states of an operator of windows; `api.tables.aggregation_state` declares them."""


def check_equally_far(metadata: CheckpointMetadata, uid: str) -> None:
    """Raise UsageError if the windows of operator `uid` cannot be moved to other key groups or keys.

    The watermark of a key group shows which windows were emitted, and a new group would have several.
    """
    if not metadata.state_types.get(uid, {}).keys() >= _STATES:
        return
    states = metadata.operators[uid]
    ahead = any(held.count for state in states for held in state.operator_state if held.name == "ahead")
    if ahead or len({state.watermark for state in states if state.keyed is not None}) > 1:
        raise UsageError(
            f"the windows of {uid!r} are not equally far in event time, as after an unaligned checkpoint, "
            "and only with the key groups and keys that they have it is known which of them were sent out; "
            "let the job go on from this snapshot until its watermarks are equal, take a savepoint, and "
            "rewrite that"
        )
