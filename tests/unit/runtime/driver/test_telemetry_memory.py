"""What telemetry remembers of checkpoints does not grow with their number."""

from __future__ import annotations

from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.system import SystemClock
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus, Topology
from headgate.runtime.driver.telemetry.telemetry import OtlpSettings, Telemetry


def test_each_checkpoint_is_sent_once_and_forgotten() -> None:
    """Of a history of the newest ten, over a thousand checkpoints."""
    told = Telemetry(OtlpSettings("http://127.0.0.1:9", {}, 1_000), LoggedJob("told"), SystemClock())
    records: list[CheckpointRecord] = []
    put: list[int] = []
    told._records = lambda: tuple(records)
    told.queue.put = lambda record: put.append(record.checkpoint)  # type: ignore[method-assign]
    for number in range(1, 1_001):
        done = CheckpointRecord(number, 1, "periodic", CheckpointStatus.COMPLETED, 0, Topology((), ()))
        records[:] = [*records, done][-10:]
        told.checkpoint_completed(number, 5)
        told.checkpoint_completed(number, 5)
    assert put == list(range(1, 1_001))
    assert len(told._seen) <= 10
