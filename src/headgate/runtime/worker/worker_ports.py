"""The ports of a worker: production and simulator fill them with implementations of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headgate.common.ports import Background, Clock, Disk, Link, Probe, UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.job.black_box import BlackBox
from headgate.runtime.transport.data_plane_contract import DataPlane
from headgate.runtime.worker.task.chain_runner import SubtaskThread


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """The ports through which a worker reaches the world outside it."""

    clock: Clock
    background: Background  # one thread (or the simulator's) for asynchronous parts
    data: DataPlane  # frames to and from peers
    link: Link  # messages to the job master
    open_disk: Callable[[str], Disk]  # URI -> checkpoint storage
    probe: Probe  # where tests inject faults
    post: Callable[[Callable[[], None]], None]  # hands a callback to the loop, from any thread
    beside: Callable[[str], SubtaskThread]  # name -> a thread for the user code of one subtask
    code: UserCode = SAME_INTERPRETER  # where that code lives in this process
    threads: Callable[[], Iterable[threading.Thread]] = threading.enumerate  # some may be user code's
    box: BlackBox | None = None  # keeps why this process ended; None where it is not the worker's own
