"""What the job master knows of its workers."""

from __future__ import annotations

from typing import Any, cast

import counted_metrics

from headgate.runtime.master.attempt.members import Member


def test_counters_that_come_late_do_not_replace_newer_ones() -> None:
    """The heartbeat's thread may have counted before a subtask ended, and send after that."""
    member = Member(cast("Any", None), cast("Any", None), 1)
    early = counted_metrics.counted(RECORDS_IN=3, BUSY=10, IDLE=5)
    late = counted_metrics.counted(RECORDS_IN=9, BUSY=12, IDLE=5)
    other = counted_metrics.counted(subtask=1, RECORDS_IN=1)
    for counters in ([early], [late, other], [early]):
        member.add_counters(counters)
    assert member.counters == {(0, 0): late, (0, 1): other}
    member.begin_attempt()
    member.add_counters([early])
    assert member.counters == {(0, 0): early}
