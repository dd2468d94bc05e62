"""The public test kit: one function run by hand, or a complete job in one process, in several, or simulated.

* :class:`OperatorHarness` drives one function with a :class:`ManualClock`;
* :class:`MiniCluster` runs a job in this process, :class:`TestSource` tells it where to fail;
* :class:`ProcessCluster` runs a job on processes of this machine, which can be killed;
* :func:`simulate` runs a job under many schedules and faults, each repeatable by its seed.
"""

from __future__ import annotations

from headgate.common.refusals.calls import check_calls as _check_calls
from headgate.metrics.histograms import Histogram
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.protocol.messages import Counters
from headgate.testing.harness import OperatorHarness
from headgate.testing.manual_clock import ManualClock
from headgate.testing.mini_cluster import MiniCluster
from headgate.testing.process_cluster import ProcessCluster
from headgate.testing.simulate import SimulationError, SimulationReport, simulate
from headgate.testing.sources import CRASH_ONCE, EOF, PAUSE, Marker, TestSource

__all__ = [
    "CRASH_ONCE", "Counters", "EOF", "Histogram", "JobListener", "LiveState", "ManualClock", "Marker",
    "MiniCluster", "OperatorHarness", "PAUSE", "ProcessCluster", "SimulationError", "SimulationReport",
    "TestSource", "simulate",
]  # fmt: skip

_check_calls(__name__, __all__)
