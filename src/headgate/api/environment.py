"""The Environment: where a program begins, is configured, explained and executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from typing_extensions import override

from headgate.api.checking.arguments import check_job_name
from headgate.api.checking.program_checks import (
    check_connectors,
    check_program,
    check_state_types,
    committing_sinks,
    states_of,
)
from headgate.api.checking.unbounded_state import warn_of_unbounded_state
from headgate.api.jobs import launch_settings as launch
from headgate.api.jobs.executor_contract import Executor, JobControl, JobResult, JobSpec
from headgate.api.jobs.job_handle import JobHandle
from headgate.api.program import Program
from headgate.api.quarantines import add_quarantines
from headgate.api.showing import cell, html_facts, html_table
from headgate.api.site import user_site
from headgate.api.source import Source
from headgate.api.streams.other_names import no_such_call
from headgate.api.streams.reading_inputs import Readers
from headgate.api.streams.steps import CollectingSink
from headgate.api.streams.stream_classes import DataStream
from headgate.common.errors import ConfigError, PlanError, UsageError
from headgate.common.hints import Hint
from headgate.common.registry import Kind, load
from headgate.common.settings import options as o
from headgate.common.settings.config import Config, Origin, validate
from headgate.common.settings.loader_options import BEGINNINGS
from headgate.common.time import format_ms
from headgate.graph.explain import describe, render
from headgate.graph.guarantees import Checkpointing
from headgate.graph.logical import NEW, Node, SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types, physical_plan
from headgate.graph.rewrites import VIRTUAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class Environment(Readers):
    """One program: its streams and tables, its settings, and the jobs that run it.

    It stays open: streams can be looked at (``preview``, ``take``, ``collect``) and added at any time, and
    each :meth:`execute` runs the sinks that no job has run before.

    Args:
        parallelism: number of subtasks, or its text, of every operator that sets no parallelism of its own.
        config: option key -> value, as text or as a Python value; ``docs/config.md`` lists the options.
        spark: an existing ``SparkSession``; None: the executor finds or opens a session.
        executor: runs the jobs: ``"spark"``, ``"mini-cluster"`` (this process), or an :class:`Executor`.

    Raises:
        ConfigError: an option does not exist or has a wrong value; `spark` or `executor` has a wrong type.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment(parallelism=2, config={"execution.buffer-timeout": "5ms"})
        >>> env.settings
        {'execution.buffer-timeout': '5ms', 'parallelism.default': '2'}
    """

    def __init__(
        self,
        parallelism: int | str | None = None,
        config: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        executor: str | Executor = "spark",
    ) -> None:
        self.program = Program()
        self.collecting: dict[str, CollectingSink] = {}
        self.collected: dict[str, list[Any]] = {}
        self.result: JobResult | None = None
        if isinstance(executor, type) or not (isinstance(executor, str) or hasattr(executor, "execute")):
            raise ConfigError(
                f"executor of Environment() ({user_site()}) is {executor!r}; expected a registered name "
                "such as 'spark', or an object with execute(job)"
            )
        if isinstance(spark, str | bytes | int | float | list | tuple | dict):
            raise ConfigError(
                f"spark of Environment() ({user_site()}) is {spark!r}; expected a SparkSession, or None for "
                "the one that is open or that is opened with the settings"
            )
        self._spark, self._executor = spark, executor
        settings = Config().with_command_line(launch.command_line_options())
        if spark is not None:
            settings = settings.with_spark(_spark_settings(spark))
        settings = settings.with_program(config or {})
        if parallelism is not None:
            settings = settings.with_program({o.PARALLELISM_DEFAULT.key: parallelism})
        self._settings = settings

    def __repr__(self) -> str:
        return f"<Environment: {', '.join(f'{name} {value}' for name, value in self._facts().items())}>"

    def _repr_html_(self) -> str:
        columns = ["operator", "uid", "parallelism", "written at"]
        default = self._settings.get(o.PARALLELISM_DEFAULT)
        rows = [
            [cell(node.name), cell(node.uid or ""), str(node.parallelism or default), cell(node.site)]
            for node in self.program.nodes()
            if not isinstance(node, VIRTUAL)
        ]
        return html_facts("Environment", self._facts()) + html_table(columns, rows)

    def _facts(self) -> dict[str, str | int]:
        nodes = [node for node in self.program.nodes() if not isinstance(node, VIRTUAL)]
        sinks = [node.id for node in nodes if isinstance(node, SinkNode)]
        left = len([number for number in sinks if not self.program.has_run(number)])
        interval = self._settings.get(o.CHECKPOINTING_INTERVAL)
        return {
            "operators": len(nodes),
            "sinks": f"{len(sinks)} ({left} to run)" if sinks else 0,
            "parallelism": self._settings.get(o.PARALLELISM_DEFAULT),
            "checkpoints": "off" if interval is None else f"every {format_ms(interval)}",
        }

    if not TYPE_CHECKING:  # a type checker is to find what does not exist

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_call(self, name)

    @property
    def settings(self) -> dict[str, str]:
        """The options that are set (by command line, Spark session or program): key -> value as text."""
        return self._settings.texts()

    # -- settings

    def config(self, key: str, value: Any) -> Environment:
        """Set an option of this program's later jobs, and return this Environment.

        Args:
            key: of the option, such as ``"parallelism.default"``.
            value: as text or as a Python value; one that the command line gives stays in force.

        Raises:
            ConfigError: no such option (the message names the nearest one), or a wrong value.
        """
        self._settings = self._settings.with_program({key: value})
        return self

    def checkpoints(
        self,
        every: str | int,
        mode: o.CheckpointingMode | str | None = None,
        storage: str | PathLike[str] | None = None,
        unaligned: bool | None = None,
        aligned_timeout: str | int | None = None,
    ) -> Environment:
        """Take checkpoints in the jobs, and return this Environment; None leaves an option as configured.

        Args:
            every: time between the starts of two checkpoints; text such as ``"1s"``, or ms.
            mode: ``hg.EXACTLY_ONCE``, the default, or ``hg.AT_LEAST_ONCE``, with which no channel waits for
                another and records may count twice after a failure.
            storage: directory or URI for the checkpoints, which driver and workers both reach.
            unaligned: whether barriers overtake records, which then become part of the checkpoint, so that it
                completes under backpressure; needs ``hg.EXACTLY_ONCE``.
            aligned_timeout: how old an unaligned checkpoint may become before its barriers overtake; text
                such as ``"5s"``, or ms; by default 0, from the start.

        Raises:
            ConfigError: a value is wrong. :meth:`plan` and :meth:`execute` find options that contradict each
                other.

        Example:
            >>> import headgate as hg
            >>> env = hg.Environment().checkpoints("10s", unaligned=True, aligned_timeout="5s")
            >>> env.settings["execution.checkpointing.unaligned.enabled"]
            'true'
            >>> env.settings["execution.checkpointing.aligned-checkpoint-timeout"]
            '5s'
        """
        self.config(o.CHECKPOINTING_INTERVAL.key, every)
        given = {
            o.CHECKPOINTING_MODE.key: mode,
            o.CHECKPOINTING_DIR.key: None if storage is None else fspath(storage),
            o.UNALIGNED.key: unaligned,
            o.ALIGNED_TIMEOUT.key: aligned_timeout,
        }
        for key, value in given.items():
            if value is not None:
                self.config(key, value)
        return self

    # -- looking

    def plan(self, name: str = "job") -> PhysicalPlan:
        """Return the physical plan of the next job, `name`, after checks of graph, options and state types.

        Files, and whether functions can be sent to the workers, are only checked by :meth:`execute`.

        Raises:
            PlanError: the program cannot run as written, or jobs have run all of it.
            ConfigError: options contradict each other, or the state backend's package is not installed.
        """
        return self._planned(name, self._pending(name), self._settings)

    def explain(
        self,
        format: Literal["text", "json"] = "text",  # noqa: A002 - the name that users know
        name: str = "job",
    ) -> str:
        """Return the logical and the physical plan of what no job has run yet, or of all if jobs ran it all.

        Args:
            format: "text" for people, "json" for machines.
            name: of the job, as the result shows it.

        Raises:
            PlanError: no plan can be made, as for a repeated uid; no sink is needed. Or no such `format`.
        """
        if format not in ("text", "json"):
            raise PlanError(f"explain() got format {format!r}; expected 'text' or 'json'")
        facts = self.describe(name)
        return render(facts) if format == "text" else json.dumps(facts, indent=2)

    def describe(self, name: str = "job") -> dict[str, Any]:
        """Return what :meth:`explain` shows, as dicts, lists, texts and numbers that JSON can hold. `name` is
        the job's name. PlanError: no plan can be made; no sink is needed.
        """
        return self._described(name, self.program.remaining(), self._settings)

    # -- running

    def execute(self, name: str = "job", restore_from: str | None = None) -> JobResult:
        """Run the sinks that no earlier job has begun, and what feeds them; return the result when it ends.

        Args:
            name: of the job, for people and logs.
            restore_from: path or URI of a checkpoint or savepoint to begin from; None: that of ``--from``.

        Raises:
            UsageError: the program, its settings or its functions cannot run; nothing was started.
            UserFunctionError: the program's code failed and the restart strategy gave up.
            JobFailedError: the job was cancelled, or failed otherwise and the restart strategy gave up.
        """
        job = self._prepared(name, restore_from)
        executor = self._find_executor()
        begun: list[JobControl] = []
        self.program.note_run(name, job.nodes)
        try:
            result = executor.execute(replace(job, begins=begun.append))
        except UsageError:
            if not begun:
                self.program.note_refused(job.nodes)
            raise
        return self._finished(job, result)

    def execute_async(self, name: str = "job", restore_from: str | None = None) -> JobHandle:
        """Start the job of :meth:`execute` in the background; return a handle to control it and wait for it.

        Args:
            name: of the job, for people and logs.
            restore_from: path or URI of a checkpoint or savepoint to begin from; None: that of ``--from``.

        Raises:
            UsageError: the program, its settings or its functions cannot run; nothing was started.
        """
        job = self._prepared(name, restore_from)
        executor = self._find_executor()
        self.program.note_run(name, job.nodes)
        handle = JobHandle(
            executor,
            job,
            lambda result: self._finished(job, result),
            lambda: self.program.note_refused(job.nodes),
        )
        launch.note_started(handle)
        return handle

    def free_uid(self, stem: str) -> str:
        """Return a uid that no operator has: `stem`, or `stem` with the lowest free number from 2."""
        taken = {node.uid for node in self.program.nodes()}
        count, uid = 1, stem
        while uid in taken:
            count += 1
            uid = f"{stem}-{count}"
        return uid

    # -- for the streams

    def _query(
        self, name: str, nodes: tuple[Node, ...], settings: Callable[[Config], Config]
    ) -> JobSpec | None:
        config = settings(self._settings)
        self._capture(name, nodes, config, ends=False)
        return None if launch.capture_file() is not None else self._spec(name, nodes, config)

    def _run(self, job: JobSpec) -> JobResult:
        result = self._find_executor().execute(job)
        if job.told is None:  # more than a glance
            self.result = result
        return result

    # -- inside

    def _pending(self, name: str) -> tuple[Node, ...]:
        add_quarantines(self.program, self._settings, name, runs=launch.capture_file() is None)
        nodes = self.program.pending()
        if nodes or not self.program.nodes():
            return nodes
        last = self.program.last_job
        why = "the program has no sink" if last is None else f"job {last!r} has run the last of its sinks"
        raise PlanError(
            f"there is nothing to execute as {name!r} ({user_site()}): {why}; give a stream a sink such as "
            "write_json() or print(), or look at it with preview() or collect()"
        )

    def _prepared(self, name: str, restore_from: str | None) -> JobSpec:
        check_job_name(name)
        nodes = self._pending(name)
        self._capture(name, nodes, self._settings, ends=True)
        job = self._spec(name, nodes, self._settings)
        return replace(job, restore_from=restore_from or launch.restore_from())

    def _capture(self, name: str, nodes: tuple[Node, ...], config: Config, *, ends: bool) -> None:
        if (file := launch.capture_file()) is None:
            return
        # The types of state are not checked: a captured plan shows which are refused.
        checked = self._checked(name, nodes, config)
        launch.note_execution(name)
        found = launch.inspected(nodes, checked, config)
        facts = self._described(name, nodes, config) | {"config": config.texts()} | found
        launch.write_captured(file, facts, ends=ends)

    def _spec(self, name: str, nodes: tuple[Node, ...], config: Config) -> JobSpec:
        from headgate.api.checking import shipping_check as shipping

        self._refuse_late_options()
        plan = self._planned(name, nodes, config)
        launch.note_execution(name)
        check_connectors(nodes)
        shipping.check_shippable(nodes)
        uids = {node.uid for node in nodes}
        return JobSpec(
            name=name,
            nodes=nodes,
            plan=plan,
            config=config,
            record_types=edge_record_types(nodes, plan),
            collected=tuple(uid for uid in self.collecting if uid in uids),
            spark=self._spark,
            user_code=launch.user_code(),
        )

    def _refuse_late_options(self) -> None:
        for option, _, origin in self._settings:
            if option.key.startswith(BEGINNINGS) and origin in (Origin.PROGRAM, Origin.SPARK):
                raise ConfigError(
                    f"option {option.key} ({origin.text}) comes too late for a program that is loaded "
                    "already; give it to who runs the program: headgate run --with PATH, or -D"
                )

    def _finished(self, job: JobSpec, result: JobResult) -> JobResult:
        collected = {uid: list(self.collecting[uid].results) for uid in job.collected}
        self.collected |= collected
        self.program.ended.update(node.id for node in job.nodes)
        self.result = replace(result, collected=collected)
        return self.result

    def _planned(self, name: str, nodes: tuple[Node, ...], config: Config) -> PhysicalPlan:
        plan = self._checked(name, nodes, config)
        check_state_types(nodes, config)
        return plan

    def _checked(self, name: str, nodes: tuple[Node, ...], config: Config) -> PhysicalPlan:
        check_job_name(name)
        validate(config)
        check_program(nodes, config)
        warn_of_unbounded_state(nodes)
        return _physical(nodes, config)

    def _described(self, name: str, nodes: tuple[Node, ...], config: Config) -> dict[str, Any]:
        facts = _physical(nodes, config), states_of(nodes), config.get(o.RESERVED_SLOTS)
        return describe(name, nodes, *facts, _checkpointing(nodes, config))

    @override
    def _begin(
        self, source: Source[T], name: str, uid: str | None, record_type: Hint | None
    ) -> DataStream[T]:
        node = SourceNode(NEW, name, uid=uid, record_type=record_type, source=source)
        return DataStream(self, self.program.add(node))

    def _find_executor(self) -> Executor:
        if not isinstance(self._executor, str):
            return self._executor
        found: Executor = load(Kind.EXECUTOR, self._executor)()
        return found


def _physical(nodes: tuple[Node, ...], config: Config) -> PhysicalPlan:
    groups = config.get(o.MAX_PARALLELISM)
    return physical_plan(nodes, config.get(o.PARALLELISM_DEFAULT), None if groups == -1 else groups)


def _checkpointing(nodes: tuple[Node, ...], config: Config) -> Checkpointing:
    if config.get(o.CHECKPOINTING_INTERVAL) is None:
        return Checkpointing()
    return Checkpointing(config.get(o.CHECKPOINTING_MODE), config.get(o.UNALIGNED), committing_sinks(nodes))


def _spark_settings(spark: SparkSession) -> dict[str, str]:
    # Duck-typed, so that the API stays free of PySpark. A session of Spark Connect has no context; the
    # executor refuses it in its own words.
    context = getattr(spark, "sparkContext", None)
    return {} if context is None else dict(context.getConf().getAll())
