"""The Environment: where a program begins, is configured, explained and executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from typing_extensions import override

from headgate.api import launch
from headgate.api.arguments import check_job_name
from headgate.api.checks import check_connectors, check_program, committing_sinks, states_of
from headgate.api.executor import Executor, JobResult, JobSpec
from headgate.api.job_handle import JobHandle
from headgate.api.program import Program
from headgate.api.reading import Readers
from headgate.api.source import Source
from headgate.api.state_types import check_state_types
from headgate.api.stream import DataStream
from headgate.common import options as o
from headgate.common.config import Config, Origin, validate
from headgate.common.errors import ConfigError, PlanError
from headgate.common.loader_options import BEGINNINGS
from headgate.common.registry import Kind, load
from headgate.graph.explain import describe, render
from headgate.graph.guarantees import Checkpointing
from headgate.graph.logical import Node, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types, physical_plan


class Environment(Readers):
    """One program: its streams, its settings, and its one execution.

    Args:
        parallelism: subtasks of every operator that sets none.
        config: options by key, as in ``docs/config.md``; text or Python values.
        spark: an existing ``SparkSession``; without one the executor finds or opens one.
        executor: who runs the job: a registered name or an :class:`Executor`.

    Raises:
        ConfigError: an option does not exist or has a wrong value.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment(parallelism=2, config={"execution.buffer-timeout": "5ms"})
        >>> env.settings
        {'execution.buffer-timeout': '5ms', 'parallelism.default': '2'}
    """

    def __init__(
        self,
        parallelism: int | None = None,
        config: Mapping[str, Any] | None = None,
        spark: Any = None,
        executor: str | Executor = "spark",
    ) -> None:
        self.program = Program()
        self.collecting: dict[str, Any] = {}
        self.result: JobResult | None = None
        self._spark, self._executor = spark, executor
        settings = Config().with_command_line(launch.command_line_options())
        if spark is not None:
            settings = settings.with_spark(_spark_settings(spark))
        settings = settings.with_program(config or {})
        if parallelism is not None:
            settings = settings.with_program({o.PARALLELISM_DEFAULT.key: parallelism})
        self._settings = settings

    @property
    def settings(self) -> dict[str, str]:
        """The options that somebody set, by key, as text."""
        return self._settings.texts()

    # -- settings

    def config(self, key: str, value: Any) -> Environment:
        """Set an option; one given on the command line stays in force.

        Raises:
            ConfigError: no such option, or a wrong value; names the nearest option.
            PlanError: the job was executed already.
        """
        self.program.demand_open(f"set {key}")
        self._settings = self._settings.with_program({key: value})
        return self

    def checkpoints(
        self,
        every: str | int,
        mode: o.CheckpointingMode | str = o.CheckpointingMode.EXACTLY_ONCE,
        storage: str | None = None,
        unaligned: bool | None = None,
        aligned_timeout: str | int | None = None,
    ) -> Environment:
        """Take checkpoints.

        Args:
            every: time between the starts of two; text such as ``"1s"``, or ms.
            mode: ``hg.EXACTLY_ONCE``, or ``hg.AT_LEAST_ONCE``, with which no channel waits for another
                and records may count twice after a failure.
            storage: directory or URI that driver and workers both reach.
            unaligned: whether barriers overtake records, which then become part of the checkpoint, so
                that it completes under backpressure; needs ``hg.EXACTLY_ONCE``. None leaves the option
                as it is.
            aligned_timeout: how old an unaligned checkpoint may become before its barriers overtake;
                text such as ``"5s"``, or ms. None leaves the option as it is, 0 at first: from the start.

        Raises:
            ConfigError: a value is wrong. That two options contradict each other is found by
                :meth:`plan` and :meth:`execute`, when all are known.
            PlanError: the job was executed already.

        Example:
            >>> import headgate as hg
            >>> env = hg.Environment().checkpoints("10s", unaligned=True, aligned_timeout="5s")
            >>> env.settings["execution.checkpointing.unaligned.enabled"]
            'true'
            >>> env.settings["execution.checkpointing.aligned-checkpoint-timeout"]
            '5s'
        """
        self.config(o.CHECKPOINTING_INTERVAL.key, every).config(o.CHECKPOINTING_MODE.key, mode)
        given = {
            o.CHECKPOINTING_DIR.key: storage,
            o.UNALIGNED.key: unaligned,
            o.ALIGNED_TIMEOUT.key: aligned_timeout,
        }
        for key, value in given.items():
            if value is not None:
                self.config(key, value)
        return self

    # -- looking

    def plan(self, name: str = "job") -> PhysicalPlan:
        """The job as it will run, after every check that needs neither a disk nor a worker.

        Raises:
            PlanError: the program cannot run as written.
            ConfigError: two options contradict each other.
        """
        plan = self._checked(name)
        check_state_types(self.program.nodes(), self._settings)
        return plan

    def explain(
        self,
        format: Literal["text", "json"] = "text",  # noqa: A002 - the name that users know
        name: str = "job",
    ) -> str:
        """Both graphs of the job, as written and as it runs; also for a program without sinks yet.

        Args:
            format: "text" for people, "json" for machines.
            name: of the job.

        Raises:
            PlanError: the program cannot run as written.
        """
        if format not in ("text", "json"):
            raise PlanError(f"explain() got format {format!r}; expected 'text' or 'json'")
        facts = self.describe(name)
        return render(facts) if format == "text" else json.dumps(facts, indent=2)

    def describe(self, name: str = "job") -> dict[str, Any]:
        """What :meth:`explain` shows, as plain values."""
        nodes = self.program.nodes()
        reserved = self._settings.get(o.RESERVED_SLOTS)
        checkpointing = self._checkpointing(nodes)
        return describe(name, nodes, self._physical(nodes), states_of(nodes), reserved, checkpointing)

    # -- running

    def execute(self, name: str = "job", restore_from: str | None = None) -> JobResult:
        """Run the program to its end; the Environment takes no further steps afterwards.

        Args:
            name: of the job, for people and logs.
            restore_from: a checkpoint or savepoint to begin from, as path or URI.

        Raises:
            UsageError: the program, its settings or its functions cannot run; nothing was started.
            UserFunctionError: the program's code failed and the restart strategy gave up.
            JobFailedError: anything else failed and the restart strategy gave up.
        """
        job = self._prepared(name, restore_from)
        executor = self._find_executor()
        self.program.close(f"job {name!r} was executed already")
        return self._finished(executor.execute(job))

    def execute_async(self, name: str = "job", restore_from: str | None = None) -> JobHandle:
        """Run the program and go on at once; the handle is how the job is asked for things, and waited for.

        Args:
            name: of the job, for people and logs.
            restore_from: a checkpoint or savepoint to begin from, as path or URI.

        Raises:
            UsageError: the program, its settings or its functions cannot run; nothing was started.
        """
        job = self._prepared(name, restore_from)
        executor = self._find_executor()
        self.program.close(f"job {name!r} was executed already")
        handle = JobHandle(executor, job, self._finished)
        launch.note_started(handle)
        return handle

    def free_uid(self, stem: str) -> str:
        """`stem`, or `stem` with the first number that no operator has as its uid."""
        taken = {node.uid for node in self.program.nodes()}
        count, uid = 1, stem
        while uid in taken:
            count += 1
            uid = f"{stem}-{count}"
        return uid

    # -- inside

    def _prepared(self, name: str, restore_from: str | None) -> JobSpec:
        """The job, after every check."""
        from headgate.api import capture, shipping

        self.program.demand_open(f"execute {name!r}")
        if (file := launch.capture_file()) is not None:
            # Not yet judged are the types of state: who looks at a program is shown which are refused.
            checked = self._checked(name)
            launch.note_execution(name)
            found = capture.inspected(self.program.nodes(), checked, self._settings)
            capture.write_captured(file, self.describe(name) | {"config": self.settings} | found)
        self._refuse_late_options()
        plan = self.plan(name)
        launch.note_execution(name)
        nodes = self.program.nodes()
        check_connectors(nodes)
        shipping.check_shippable(nodes)
        return JobSpec(
            name=name,
            nodes=nodes,
            plan=plan,
            config=self._settings,
            record_types=edge_record_types(nodes, plan),
            collected=tuple(self.collecting),
            restore_from=restore_from or launch.restore_from(),
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

    def _finished(self, result: JobResult) -> JobResult:
        collected = {uid: list(sink.results) for uid, sink in self.collecting.items()}
        self.result = replace(result, collected=collected)
        return self.result

    def _checked(self, name: str) -> PhysicalPlan:
        check_job_name(name)
        validate(self._settings)
        nodes = self.program.nodes()
        check_program(nodes, self._settings)
        return self._physical(nodes)

    def _physical(self, nodes: tuple[Node, ...]) -> PhysicalPlan:
        groups = self._settings.get(o.MAX_PARALLELISM)
        return physical_plan(
            nodes, self._settings.get(o.PARALLELISM_DEFAULT), None if groups == -1 else groups
        )

    def _checkpointing(self, nodes: tuple[Node, ...]) -> Checkpointing:
        get = self._settings.get
        if get(o.CHECKPOINTING_INTERVAL) is None:
            return Checkpointing()
        return Checkpointing(get(o.CHECKPOINTING_MODE), get(o.UNALIGNED), committing_sinks(nodes))

    @override
    def _begin(self, source: Source[Any], name: str, uid: str | None, record_type: Any) -> DataStream[Any]:
        number = self.program.add(SourceNode, name, source=source, uid=uid, record_type=record_type)
        return DataStream(self, number)

    def _find_executor(self) -> Executor:
        if not isinstance(self._executor, str):
            return self._executor
        found: Executor = load(Kind.EXECUTOR, self._executor)()
        return found


def _spark_settings(spark: Any) -> dict[str, str]:
    # Duck-typed, so that the API stays free of PySpark. A session of Spark Connect has no context; the
    # executor refuses it in its own words.
    context = getattr(spark, "sparkContext", None)
    return {} if context is None else dict(context.getConf().getAll())
