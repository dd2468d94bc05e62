"""Collects the metrics of a subtask, for heartbeats and for its last totals.

What is collected are totals that the subtask and its operators keep while they process batches; so this costs
nothing per batch, and may be done in the heartbeat's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.common.errors import ProtocolError
from headgate.common.ids import SubtaskId
from headgate.metrics import metric_table as table
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.exchange.channel_parts import channel_parts
from headgate.runtime.worker.exchange.output import Outputs
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.task.time_shares import TimeShares

_RECORDS_IN: Final = table.RECORDS_IN.at()
_RECORDS_OUT: Final = table.RECORDS_OUT.at()
_BATCHES_OUT: Final = table.BATCHES_OUT.at()
_BUSY: Final = table.BUSY.at()
_BACKPRESSURED: Final = table.BACKPRESSURED.at()
_IDLE: Final = table.IDLE.at()
_WAITING: Final = table.WAITING.at()
_LONGEST_STEP: Final = table.LONGEST_STEP.at()
_STEPS: Final = table.STEPS.at()
_WATERMARK_IN: Final = table.WATERMARK.at("input")
_WATERMARK_OUT: Final = table.WATERMARK.at("output")
_UNKNOWN: Final = {
    series: metric.unknown for metric in table.TABLE if metric.unknown is not None for series in metric.series
}


class Wanted:
    """The series of metrics that the job master wants of each subtask, in the order in which it wants them.

    Raises ProtocolError if one is not in the table of metrics.
    """

    def __init__(
        self, numbers: Sequence[str] = table.NUMBERS, histograms: Sequence[str] = table.HISTOGRAMS
    ) -> None:
        unknown = sorted({*numbers} - {*table.NUMBERS} | {*histograms} - {*table.HISTOGRAMS})
        if unknown:
            raise ProtocolError(
                f"the job master asks for metrics that this worker does not know: {', '.join(unknown)}:"
                " run the same Headgate version on driver and workers"
            )
        self.numbers, self.histograms = numbers, histograms


class Measuring:
    """Collects the metrics of one subtask from its operators, its outputs and the shares of its time."""

    def __init__(
        self,
        subtask: SubtaskId,
        operators: Sequence[Operator],
        outputs: Outputs,
        times: TimeShares,
        wanted: Wanted,
    ) -> None:
        self._subtask, self._wanted = subtask, wanted
        self._operators, self._outputs, self._times = operators, outputs, times

    def counters(self, records_in: int, watermark: int) -> Counters:
        """Return the subtask's metrics in the order of `Wanted`; a number that nothing here measures is 0 or
        unknown. `records_in`: how many records it has processed; `watermark`: its input's event time (ms).
        """
        numbers, histograms = self._numbers(records_in, watermark), {_STEPS: self._times.steps.sparse()}
        return Counters(
            *self._subtask,
            [numbers.get(series, _UNKNOWN.get(series, 0)) for series in self._wanted.numbers],
            [histograms[series] for series in self._wanted.histograms],
            [told for operator in self._operators for told in operator.context.metrics.told()],
            [
                *(part for operator in self._operators for part in operator.parts()),
                *channel_parts(self._outputs),
            ],
        )

    def _numbers(self, records_in: int, watermark: int) -> dict[str, int]:
        outputs, spent = self._outputs, self._times.spent()
        found = {
            _RECORDS_IN: records_in,
            _RECORDS_OUT: outputs.records_out,
            _BATCHES_OUT: sum(channel.batches for channel in outputs.channels()),
            _BUSY: round(spent.busy),
            _BACKPRESSURED: round(spent.backpressured),
            _IDLE: round(spent.idle),
            _WAITING: round(spent.waiting),
            _LONGEST_STEP: self._times.longest_us,
            _WATERMARK_IN: watermark,
            _WATERMARK_OUT: outputs.event_time,
        }
        for operator in self._operators:
            found |= operator.measured()
        return found
