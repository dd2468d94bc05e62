"""Jobs of ``preview()``, ``collect()`` and the like: they run what feeds one stream, outside the program,
which stays open, with no sinks, checkpoints or restores. No node is added: uids made of positions stay the
same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from headgate.api.checking import inference
from headgate.api.checking.arguments import check_count, check_seconds
from headgate.api.jobs.executor_contract import JobControl
from headgate.api.sink import Sink
from headgate.api.site import user_site
from headgate.api.source import Boundedness
from headgate.api.streams.steps import ProgramContext
from headgate.common.errors import JobCancelledError, PlanError
from headgate.common.registry import Kind, load
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import Node, SinkNode, SourceNode

_OF_LASTING_JOBS: Final = (
    "execution.checkpointing.",
    "execution.state-recovery.",
    "execution.sinks.",
    "state.changelog.",
    "high-availability.",
)
"""Prefixes of settings that do not apply to jobs of ``preview()``, ``collect()`` and the like."""


def collected(environment: ProgramContext, number: int, name: str) -> list[Any]:
    """Run what feeds stream `number` as job `name`, to its end; return all records of the stream, or
    PlanError if it is endless. In a process that only captures plans nothing runs: the list is empty.
    """
    sink = load(Kind.CONNECTOR, "collect_sink")(record_type=_rebuilt(environment, number))
    run_query(environment, number, sink, "collect", name)
    return list(sink.results)


def taken(
    environment: ProgramContext, number: int, count: int, timeout_s: float | None, verb: str
) -> list[Any]:
    """Run what feeds stream `number` until `count` records have come, or `timeout_s` seconds passed (None: no
    limit); return those that have come. `verb` names the job. PlanError: a number is not above 0.
    """
    check_count(verb, count)
    check_seconds(verb, timeout_s)
    sink = load(Kind.CONNECTOR, "sample_sink")(count, _rebuilt(environment, number), verb)
    watch = _Watch(sink)
    with watch.limited(timeout_s):
        run_query(environment, number, sink, verb, verb, watch)
    return list(sink.results)


def run_query(
    environment: ProgramContext,
    number: int,
    sink: Sink[Any],
    end: str,
    name: str,
    watch: _Watch | None = None,
) -> None:
    """Run stream `number` into `sink`, an operator called `end`, as job `name`; return when the job has
    ended. A `watch` may cancel the job early; without it an endless stream is a PlanError. In a process that
    only captures plans (``headgate plan``) nothing runs: the plan is written.
    """
    above = environment.program.above(number)
    if watch is None:
        _refuse_endless(end, above)
    uid = environment.free_uid(end)
    last = SinkNode(
        id=1 + max(node.id for node in environment.program.nodes()),
        name=end,
        inputs=(above[-1],),
        uid=uid,
        site=user_site(),
        sink=sink,
    )
    environment.program.looked_at(above)
    job = environment._query(name, (*above, last), lambda config: query_settings(config, watch is not None))
    if job is None:  # only the plan is captured
        return
    if watch is None:
        environment._run(job)
        return
    try:
        environment._run(replace(job, begins=watch.begins, told=watch.received))
    except JobCancelledError:
        if not watch.ended:
            raise


def _refuse_endless(verb: str, above: Sequence[Node]) -> None:
    for node in above:
        if isinstance(node, SourceNode) and node.source.boundedness is Boundedness.UNBOUNDED:
            raise PlanError(
                f"{verb}() ({user_site()}) would never end: {node.name}() ({node.site}) has no end; "
                "look at the stream with preview(n) or take(n), or write it with a sink and execute()"
            )


def query_settings(config: Config, short: bool) -> Config:
    # DataFrames are staged below that directory where driver and workers share no other.
    config = config.without(*_OF_LASTING_JOBS, but=o.CHECKPOINTING_DIR)
    if short or not config.is_set(o.RESTART_STRATEGY):
        config = config.without("restart-strategy.")
    if not short:
        return config
    quiet = {o.REST_ENABLED.key: False, o.PROGRESS.key: o.ProgressDisplay.OFF}
    return config.without("rest.", *quiet).with_program(quiet)


def _rebuilt(environment: ProgramContext, number: int) -> type | None:
    return inference.rebuildable(environment.program.node(number).record_type)


class SamplingSink(Protocol):
    """A sink that recognizes when the driver has received enough records, for ``take()``."""

    def told(self, data: bytes) -> bool:
        """Take bytes that a writer sent to the driver; return whether the sink now has enough records."""


@dataclass
class _Watch:
    """Cancels the job of a ``take()``, once begun, when its sink has enough records or its time is up."""

    sink: SamplingSink
    ended: bool = False  # whether this ended the job
    _control: JobControl | None = None
    _enough: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begins(self, control: JobControl) -> None:
        with self._lock:
            self._control = control
            if self._enough:
                self._end()

    def received(self, uid: str, subtask: int, data: bytes) -> None:
        if self.sink.told(data):
            self.end()

    def end(self) -> None:
        with self._lock:
            self._enough = True
            if self._control is not None:
                self._end()

    def _end(self) -> None:
        assert self._control is not None
        self.ended = True
        self._control.cancel()

    @contextmanager
    def limited(self, timeout_s: float | None) -> Iterator[None]:
        if timeout_s is None:
            yield
            return
        timer = threading.Timer(timeout_s, self.end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
