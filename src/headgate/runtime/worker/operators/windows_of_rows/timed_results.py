"""A keyed operator whose function gives results their event time, and counts the late records it drops."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.streams.joining.join_function import JoinFunction
from headgate.api.windows.window_function import WindowFunction
from headgate.metrics.metric_table import LATE_RECORDS
from headgate.runtime.worker.operators.keyed_context import KeyedOutput
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator


class TimedResultsOperator(KeyedProcessOperator):
    """Runs a function of windows or of a join, which emits pairs of event time (ms; None: that of the input)
    and result.
    """

    def measured(self) -> Mapping[str, int]:
        function = self._function
        assert isinstance(function, WindowFunction | JoinFunction)
        return {**super().measured(), LATE_RECORDS.at(): function.dropped}

    def _emit(self, out: KeyedOutput) -> None:
        pairs = out.records
        if pairs:
            out.records = [record for _, record in pairs]
            if len(out.times) == len(pairs):
                # Results of windows without an end have the time of the record or timer.
                out.times = [
                    own if given is None else given for (given, _), own in zip(pairs, out.times, strict=True)
                ]
        super()._emit(out)
