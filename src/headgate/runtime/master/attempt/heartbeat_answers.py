"""Answers a worker's heartbeat with the event times that the other workers' sources have reached."""

from __future__ import annotations

from headgate.core.watermark_alignment import least_of
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.protocol.messages import Heartbeat, HeartbeatSeen


def answer_to(beat: Heartbeat, slot: int, members: Members) -> HeartbeatSeen:
    """Return the answer to the heartbeat of `slot`'s worker.

    It has, by group of sources, the least event time (ms) that workers of other slots have reported in the
    same attempt; None until all of them have, and for a worker that has reported no group.
    """
    wanted = members.sampling, members.log_levels, members.tracing
    if not beat.event_times:
        return HeartbeatSeen(beat.sent_ms, 0, None, *wanted)
    others = [each for each in members.members() if each.register.slot != slot]
    least = least_of(
        None if each.beat is None or each.beat.attempt != beat.attempt else each.beat.event_times
        for each in others
    )
    return HeartbeatSeen(beat.sent_ms, beat.attempt, least, *wanted)
