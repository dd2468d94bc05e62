"""How many records the windows of a simulated job dropped as late, each once, over restarts and savepoints.

The product counts them in a metric, which begins anew with each deployment. Here the count of each subtask is
noted at its snapshots, so that the count of a checkpoint is that of its deployment up to there, and that of
the checkpoint from which the deployment had begun.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from headgate.metrics.metric_table import LATE_RECORDS
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator
from headgate.state.snapshots import CheckpointMetadata

Deployment = tuple[str, int, int]
"""Id of the job, generation of the driver, number of the attempt."""

_snapshot = WindowsOperator.snapshot


class LateCounts:
    """The counts of one simulation, whose operators are watched while `watching` is open."""

    def __init__(self) -> None:
        self._noted: dict[Deployment, dict[tuple[str, int], list[tuple[int, int]]]] = defaultdict(dict)
        self._begun: dict[Deployment, Counter[str]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the count of each operator of windows at each of its snapshots."""

        def snapshot(operator: WindowsOperator, checkpoint: int) -> Any:
            where = operator.context
            deployment = (where.job, where.generation, where.attempt)
            counts = self._noted[deployment].setdefault((where.uid, where.subtask), [])
            counts.append((checkpoint, operator.measured()[LATE_RECORDS.at()]))
            return _snapshot(operator, checkpoint)

        with patch.object(WindowsOperator, "snapshot", snapshot):
            yield

    def begins(self, deployment: Deployment, cut: CheckpointMetadata | None) -> None:
        """Note that a deployment begins from a checkpoint or savepoint; None: from nothing."""
        self._begun[deployment] = Counter() if cut is None else self.at(cut)

    def at(self, cut: CheckpointMetadata) -> Counter[str]:
        """Uid of an operator -> late records before a checkpoint or savepoint."""
        deployment = (cut.job, cut.generation, cut.attempt)
        found = Counter(self._begun[deployment])
        for (uid, _), counts in self._noted[deployment].items():
            # A subtask that had ended takes no further snapshots.
            found[uid] += max(
                (late for checkpoint, late in counts if checkpoint <= cut.checkpoint), default=0
            )
        return found
