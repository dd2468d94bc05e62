"""The ports of a worker to the outside world: production and simulator implement them differently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headgate.common.ports import Background, Clock, Disk, Link, Probe, UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.job.black_box import BlackBox
from headgate.runtime.job.event_loops import Ended, EventLoop
from headgate.runtime.transport.data_plane_contract import DataPlane
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.operators.asynchronous.event_loop_thread import EventLoopThread, Post
from headgate.runtime.worker.task.chain_runner import SubtaskThread


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """The interfaces of one worker to clock, network, storage, threads and the modules of user code."""

    clock: Clock
    background: Background  # one thread (or the simulator's) for asynchronous parts of snapshots
    data: DataPlane  # frames to and from peers
    link: Link  # messages to the job master
    open_disk: Callable[[str], Disk]  # URI -> checkpoint storage
    probe: Probe  # where tests inject faults
    post: Callable[[Callable[[], None]], None]  # has the loop call a callback, from any thread
    user_thread: Callable[[str], SubtaskThread]  # name -> a thread for the user code of one subtask
    code: UserCode = SAME_INTERPRETER  # the modules in which user code lives in this process
    threads: Callable[[], Iterable[threading.Thread]] = threading.enumerate  # some may be user code's
    box: BlackBox | None = None  # records why this process ended; None if it is not the worker's own
    # (name, code, post, what gets ended calls) -> the event loop of a subtask's asynchronous function
    event_loop: Callable[[str, UserCode, Post, Callable[[list[Ended]], None]], EventLoop] = EventLoopThread
    traces: RecordTraces | None = None  # of single records; None: the worker makes its own
