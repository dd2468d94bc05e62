"""The Environment: settings, refusals before anything starts, executions, looks at streams."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from api_fakes import Count, Numbers, Plain, RecordingExecutor, Refusing, Safe, Shelf, Ticking

import headgate as hg
from headgate.api.jobs import launch_settings
from headgate.common.settings import options as o

STORED = {"execution.checkpointing.interval": "1s", "execution.checkpointing.dir": "/checkpoints"}


def shape(env: hg.Environment) -> list[list[str | None]]:
    """The chains that a program would run as."""
    return [[node.uid for node in vertex.chain] for vertex in env.plan().vertices]


def small(env: hg.Environment | None = None) -> hg.Environment:
    """A program that can run."""
    env = env or hg.Environment()
    env.from_source(Numbers(), uid="numbers").map(str).sink_to(Shelf())
    return env


def test_settings_have_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's settings, then the program's, then the command line's; the later wins."""
    monkeypatch.setenv(launch_settings.OPTIONS_VARIABLE, '["parallelism.default=7"]')
    conf = SimpleNamespace(
        getAll=lambda: [("spark.headgate.heartbeat.interval", "2s"), ("spark.app.id", "x")]
    )
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    env = hg.Environment(parallelism=2, config={"execution.buffer-timeout": 3}, spark=spark)
    env.config("parallelism.default", 4).config("execution.buffer-timeout", "5ms")
    assert env.settings == {
        "execution.buffer-timeout": "5ms",
        "heartbeat.interval": "2s",
        "parallelism.default": "7",
    }


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    """A misspelt key never passes in silence."""
    with pytest.raises(hg.ConfigError, match=r"did you mean 'parallelism.default'"):
        hg.Environment(config={"parallelism.defalt": 2})


@pytest.mark.parametrize("parallelism", [0, -1, True, "many"])
def test_a_parallelism_that_is_none_is_refused(parallelism: object) -> None:
    """The job's and an operator's parallelism are whole numbers of at least 1."""
    with pytest.raises(
        hg.UsageError, match=r"parallelism\.default|for 'parallelism'; expected a whole number"
    ):
        hg.Environment(parallelism=parallelism)  # type: ignore[arg-type]
    stream = hg.Environment().from_source(Numbers())
    with pytest.raises(
        hg.PlanError, match=r"test_api_environment\.py:\d+\) (is .*at least 1|got .*whole number)"
    ):
        stream.set_parallelism(parallelism)  # type: ignore[arg-type]


def test_checkpoints_set_their_options() -> None:
    """`checkpoints` is a short form of three options."""
    env = hg.Environment().checkpoints(every="500ms", mode=hg.EXACTLY_ONCE, storage="/there")
    assert env.settings == {
        "execution.checkpointing.dir": "/there",
        "execution.checkpointing.interval": "500ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
    }


@pytest.mark.parametrize("every", ["-1s", -5, 0, "soon"])
def test_a_checkpoint_interval_that_is_none_is_refused(every: object) -> None:
    """Negative and unreadable durations are refused at once."""
    with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.interval"):
        hg.Environment().checkpoints(every=every)  # type: ignore[arg-type]


def test_checkpoints_may_be_at_least_once_or_unaligned() -> None:
    """The rest of the short form; what is not given stays as it was."""
    env = hg.Environment().checkpoints("1s", mode=hg.AT_LEAST_ONCE)
    assert env.settings == {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }
    env = hg.Environment().checkpoints("1s", unaligned=True, aligned_timeout=5000)
    env.checkpoints("2s")
    assert env.settings == {
        "execution.checkpointing.aligned-checkpoint-timeout": "5s",
        "execution.checkpointing.interval": "2s",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    env.checkpoints("2s", unaligned=False)
    assert env.settings["execution.checkpointing.unaligned.enabled"] == "false"


CONFIGURED = {
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
    "execution.checkpointing.dir": "/there",
    "execution.checkpointing.unaligned.enabled": "true",
    "execution.checkpointing.aligned-checkpoint-timeout": "7s",
    "parallelism.default": "3",
}
"""Values that are not the defaults."""


def test_what_is_not_given_is_not_set() -> None:
    """A short form changes the options that it is given values for, and no other that was configured."""
    env = hg.Environment(config=CONFIGURED)
    assert env.settings == CONFIGURED
    assert env.checkpoints(every="1s").settings == {
        **CONFIGURED,
        "execution.checkpointing.interval": "1s",
    }
    env.checkpoints("2s", mode=hg.EXACTLY_ONCE)
    assert env.settings["execution.checkpointing.mode"] == "EXACTLY_ONCE"


def test_nothing_is_set_by_what_has_a_default() -> None:
    """Of all that a program may call, none has a default that would override the configuration."""
    env = hg.Environment(config=CONFIGURED)
    timed = env.from_collection([{"k": 1, "t": 2}], uid="in").with_event_time("t").rebalance()
    timed.map(lambda record: record, uid="map").write_json("/tmp/out", uid="out")
    env.from_source(Numbers(), uid="other").collect_later()
    env.explain()
    assert env.settings == CONFIGURED


def test_the_configured_mode_is_in_force() -> None:
    """What runs is what the configuration says, when `checkpoints` does not speak of it."""
    env = hg.Environment(config={"execution.checkpointing.mode": "AT_LEAST_ONCE"}).checkpoints("1s")
    counted = (
        env.from_collection([{"k": 1}], uid="in").set_parallelism(2).key_by("k").process(Count(), uid="n")
    )
    counted.write_json("/tmp/out", uid="out")
    assert "at-least-once" in env.explain()


@pytest.mark.parametrize("timeout", ["-1s", -5, "soon"])
def test_an_aligned_timeout_that_is_none_is_refused(timeout: object) -> None:
    """The refusal names the option behind the argument."""
    with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.aligned-checkpoint-timeout"):
        hg.Environment().checkpoints("1s", unaligned=True, aligned_timeout=timeout)  # type: ignore[arg-type]


def test_at_least_once_can_be_planned() -> None:
    """A mode that is wanted is had."""
    env = small(hg.Environment(config=STORED))
    env.config("execution.checkpointing.mode", hg.AT_LEAST_ONCE)
    assert len(env.plan().vertices) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            {"unaligned": True, "mode": hg.AT_LEAST_ONCE},
            r"unaligned\.enabled is true .*mode is AT_LEAST_ONCE",
        ),
        ({"aligned_timeout": "5s"}, r"aligned-checkpoint-timeout is 5s .*unaligned\.enabled is false"),
    ],
)
def test_contradicting_kinds_of_checkpoints_are_refused_with_the_plan(
    arguments: dict[str, object], named: str
) -> None:
    """Both options are named when all settings are in."""
    env = small().checkpoints("1s", storage="/there", **arguments)  # type: ignore[arg-type]
    with pytest.raises(hg.ConfigError, match=named):
        env.plan()


def test_contradicting_options_are_refused_with_the_plan() -> None:
    """Checkpoints without a directory cannot run."""
    env = small()
    env.checkpoints(every="1s")
    with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.dir"):
        env.plan()


def test_plan_uses_the_settings() -> None:
    """Default parallelism and the number of key groups come from the options."""
    plan = small(hg.Environment(parallelism=2, config={"pipeline.max-parallelism": 16})).plan()
    assert (plan.slots, plan.max_parallelism, len(plan.vertices)) == (2, 16, 1)
    assert plan.vertices[0].name == "Numbers -> map -> Shelf"


def test_an_empty_program_and_a_stream_without_sink_are_refused() -> None:
    """A stream that leads nowhere is named with its line."""
    with pytest.raises(hg.PlanError, match="the program is empty"):
        hg.Environment().plan()
    env = small()
    env.from_source(Numbers(), uid="more").filter(bool)
    with pytest.raises(hg.PlanError, match=r"'filter' \(test_api_environment\.py:\d+\) leads nowhere"):
        env.plan()
    assert "Filter 'filter'" in env.explain(), "explain works before the sinks are written"


@pytest.mark.parametrize(
    ("function", "what"), [(Count(), "has state"), (Ticking(), "has timers"), (Plain(), None)]
)
def test_keyed_state_and_timers_need_a_uid_when_checkpoints_are_on(
    function: hg.KeyedProcessFunction, what: str | None
) -> None:
    """Without checkpoints, or without state and timers, the uid may be left out."""
    for config in ({}, STORED):
        env = hg.Environment(config=config)
        env.from_source(Numbers(), uid="in").key_by(str).process(function).sink_to(Shelf())
        if config and what:
            with pytest.raises(hg.PlanError, match=rf"\(test_api_environment\.py:\d+\) {what} but no uid"):
                env.plan()
        else:
            assert env.plan().slots == 1


def test_sources_and_committing_sinks_need_a_uid_when_checkpoints_are_on() -> None:
    """A position and prepared output are state; a sink that commits nothing has none."""
    env = hg.Environment(config=STORED)
    env.from_source(Numbers()).sink_to(Shelf())
    with pytest.raises(hg.PlanError, match=r"'Numbers' .* has a position in its input but no uid"):
        env.plan()
    env = hg.Environment(config=STORED)
    sink = env.from_source(Numbers(), uid="in").sink_to(Safe())
    with pytest.raises(hg.PlanError, match=r"'Safe' .* has output that is committed .* but no uid"):
        env.plan()
    sink.uid("out")
    assert env.plan().slots == 1


def test_a_uid_used_twice_is_refused() -> None:
    """Both places are named."""
    env = hg.Environment()
    env.from_source(Numbers(), uid="a").map(str, uid="a").sink_to(Shelf())
    with pytest.raises(hg.PlanError, match=r"uid 'a' is used 2 times, by 'Numbers' .* and 'map'"):
        env.plan()


@pytest.mark.parametrize("uid", ["", "a/b", "a\nb", "x" * 201, 7])
def test_a_uid_that_is_none_is_refused(uid: object) -> None:
    """A uid is short printable text without a slash."""
    with pytest.raises(hg.PlanError, match=r"(?=.*uid).* \(.*test_api_environment\.py"):
        hg.Environment().from_source(Numbers(), uid=uid)  # type: ignore[arg-type]


def test_execute_hands_over_the_checked_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor gets program, plan, settings and the checkpoint to begin from."""
    executor = RecordingExecutor()
    env = small(hg.Environment(parallelism=2, executor=executor))
    monkeypatch.setenv(launch_settings.RESTORE_VARIABLE, "/old/chk-7")
    result = env.execute("first")
    (job,) = executor.jobs
    assert (job.name, job.restore_from, job.plan.slots) == ("first", "/old/chk-7", 2)
    assert [node.uid for node in job.plan.vertices[0].chain] == ["numbers", "map-1", "sink-2"]
    assert all(node.inputs == () for node in job.plan.vertices[0].chain)
    assert job.config.get(o.PARALLELISM_DEFAULT) == 2
    assert [node.name for node in job.nodes] == ["Numbers", "map", "Shelf"]
    assert result is env.result


def test_an_explicit_checkpoint_beats_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program says of itself is nearer."""
    executor = RecordingExecutor()
    monkeypatch.setenv(launch_settings.RESTORE_VARIABLE, "/old/chk-7")
    small(hg.Environment(executor=executor)).execute(restore_from="/old/chk-8")
    assert executor.jobs[0].restore_from == "/old/chk-8"


def test_nothing_starts_when_a_connector_complains() -> None:
    """Sources and sinks look at the world before the executor is asked for anything."""
    executor = RecordingExecutor()
    env = hg.Environment(executor=executor)
    env.from_source(Numbers("no such file 'x'")).sink_to(Shelf())
    with pytest.raises(hg.PlanError, match=r"no such file 'x' \(Numbers at test_api_environment\.py:\d+\)"):
        env.execute()
    assert executor.jobs == []
    env.config("execution.buffer-timeout", "1ms")  # still open: nothing ran


def test_nothing_starts_when_a_function_cannot_be_shipped() -> None:
    """Shipping is tried before the executor is asked for anything."""
    executor = RecordingExecutor()
    env = hg.Environment(executor=executor)
    endless = (n for n in range(3))
    env.from_source(Numbers()).map(lambda record: (record, endless)).sink_to(Shelf())
    with pytest.raises(hg.NotShippableError, match="closure variable 'endless' is a generator"):
        env.execute()
    assert executor.jobs == []


def test_a_second_execute_runs_only_what_was_added_since() -> None:
    """Each sink runs once, with all that feeds it, also what an earlier job has run for another sink."""
    executor = RecordingExecutor()
    env = hg.Environment(executor=executor)
    numbers = env.from_source(Numbers(), uid="in")
    numbers.map(str).sink_to(Shelf(), uid="first")
    env.execute("one")
    numbers.filter(bool).sink_to(Shelf(), uid="second")
    env.from_source(Numbers(), uid="other").sink_to(Shelf(), uid="third")
    env.execute("two")
    run = [[node.uid for node in job.nodes if node.uid] for job in executor.jobs]
    assert run == [["in", "first"], ["in", "second", "other", "third"]]


@pytest.mark.parametrize("start", ["execute", "execute_async", "plan"])
def test_an_execute_with_nothing_left_is_refused(start: str) -> None:
    """It says which job has run the last sink, and what to do."""
    env = small(hg.Environment(executor=RecordingExecutor()))
    env.execute("done")
    with pytest.raises(hg.PlanError, match=r"'again' \(.*py:\d+\): job 'done' has run the last of its sinks"):
        getattr(env, start)("again")
    small(env)
    getattr(env, start)("again")


def test_only_a_sink_that_has_run_cannot_be_changed() -> None:
    """Nothing would come of it; all else may still be run."""
    env = hg.Environment(executor=RecordingExecutor())
    stream = env.from_source(Numbers())
    sink = stream.sink_to(Shelf())
    env.execute("done")
    for change in (lambda: sink.uid("x"), lambda: sink.name("x"), lambda: sink.set_parallelism(2)):
        with pytest.raises(hg.PlanError, match=r"job 'done' has written it already.*another sink"):
            change()
    stream.uid("later").sink_to(Shelf())
    env.config("parallelism.default", 3).execute("more")


def test_a_refused_job_has_run_nothing() -> None:
    """What did not begin can be executed when the reason is mended."""
    executor = Refusing()
    env = small(hg.Environment(executor=executor))
    with pytest.raises(hg.UsageError, match="too few slots"):
        env.execute("one")
    with pytest.raises(hg.UsageError, match="too few slots"):
        env.execute_async("one").result()
    executor.refuses = False
    assert env.execute("one").name == "one"


def test_looking_at_a_stream_leaves_the_program_as_it_is() -> None:
    """Neither its plan nor a uid made of a position changes, and streams looked at may lead nowhere."""
    executor = RecordingExecutor()
    config = STORED | {"execution.checkpointing.unaligned.enabled": "true"}
    env = hg.Environment(executor=executor, config=config)
    numbers = env.from_source(Numbers(), uid="in")
    numbers.sink_to(Shelf(), uid="out")
    before = shape(env)
    looked = numbers.map(str)
    assert (looked.collect(), looked.take(3), list(looked.preview())) == ([], [], [])
    looked.map(len).sink_to(Shelf(), uid="more")
    other = hg.Environment(executor=RecordingExecutor(), config=config)
    same = other.from_source(Numbers(), uid="in")
    same.sink_to(Shelf(), uid="out")
    assert before == shape(other)
    same.map(str).map(len).sink_to(Shelf(), uid="more")
    env.execute()
    other.execute()
    uids = [[node.uid for vertex in job.plan.vertices for node in vertex.chain] for job in executor.jobs]
    assert uids[:3] == [["in", "map-2", end] for end in ("collect", "take", "preview")]
    assert uids[3] == ["in", "out", "map-2", "map-3", "more"]
    lasting = ("execution.checkpointing.", "execution.state-recovery.")
    looks = [key for job in executor.jobs[:3] for key in job.config.texts() if key.startswith(lasting)]
    assert looks == ["execution.checkpointing.dir"] * 3
    assert executor.jobs[3].config.get(o.CHECKPOINTING_INTERVAL) == 1000


def test_a_program_without_any_sink_says_so() -> None:
    """A script that only looks has nothing to execute."""
    env = hg.Environment(executor=RecordingExecutor())
    env.from_source(Numbers()).take(1)
    with pytest.raises(hg.PlanError, match="the program has no sink; give a stream a sink such as"):
        env.execute()


def test_in_a_shell_a_stream_may_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is run again leaves the streams of its last run behind; a script has forgotten a sink."""
    env = small(hg.Environment(executor=RecordingExecutor()))
    env.from_source(Numbers()).map(str)
    with pytest.raises(hg.PlanError, match="leads nowhere"):
        env.plan()
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)
    assert [node.name for vertex in env.plan().vertices for node in vertex.chain] == [
        "Numbers",
        "map",
        "Shelf",
    ]


@pytest.mark.parametrize("n", [0, -1, True, "3", 2.0])
def test_a_number_of_records_that_is_none_is_refused(n: object) -> None:
    """Before anything runs."""
    numbers = hg.Environment(executor=RecordingExecutor()).from_source(Numbers())
    with pytest.raises(hg.PlanError, match=r"take\(\) \(.*\) got .*expected .*whole number"):
        numbers.take(n)  # type: ignore[arg-type]
    with pytest.raises(hg.PlanError, match=r"timeout_s of preview\(\)|preview\(\) .* for 'timeout_s'"):
        numbers.preview(timeout_s=n if n != 2.0 and n != "3" else -1)  # type: ignore[arg-type]


def test_an_unknown_executor_is_refused() -> None:
    """The registry names the nearest."""
    with pytest.raises(hg.UsageError, match="did you mean 'spark'"):
        small(hg.Environment(executor="sparc")).execute()


@pytest.mark.parametrize("name", ["", " ", "a\nb", None])
def test_a_job_name_that_is_none_is_refused(name: object) -> None:
    """It stands in logs and file names."""
    with pytest.raises(hg.PlanError, match=r"job's name|for 'name'; expected text"):
        small().plan(name)  # type: ignore[arg-type]


def test_explain_gives_text_and_json() -> None:
    """Both forms tell the same facts; another form is refused."""
    env = hg.Environment(parallelism=2)
    env.from_source(Numbers(), uid="in").key_by(str).process(Count(), uid="count").sink_to(Shelf())
    facts = json.loads(env.explain(format="json", name="counting"))
    assert facts == env.describe("counting")
    (keyed,) = [node for node in facts["logical"] if node["kind"] == "KeyedProcess"]
    assert keyed["state"] == [{"name": "count", "kind": "value", "types": ["int"]}]
    assert "state count: value[int]" in env.explain()
    with pytest.raises(hg.PlanError, match="'text' or 'json'"):
        env.explain(format="yaml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "safe", "plain"),
    [
        ({}, "no guarantee: checkpoints are off", "no guarantee: checkpoints are off"),
        (STORED, "exactly-once", "state exactly-once, output at-least-once"),
        (STORED | {"execution.checkpointing.mode": "AT_LEAST_ONCE"}, "at-least-once", "at-least-once"),
    ],
)
def test_explain_states_the_guarantee_of_each_sink(settings: dict[str, str], safe: str, plain: str) -> None:
    """The checkpoints that are set, and whether the sink commits, decide; its own claim alone does not."""
    env = hg.Environment(parallelism=2, config=settings)
    counts = env.from_source(Numbers(), uid="in").key_by(str).process(Count(), uid="count")
    counts.sink_to(Safe(), uid="safe")
    counts.sink_to(Shelf())
    sinks = [node["guarantee"] for node in env.describe()["logical"] if node["kind"] == "Sink"]
    assert sinks == [safe, plain]


def test_collect_runs_the_job_and_collect_later_waits_for_it() -> None:
    """Both give the sink's records; before execute there are none to give."""
    env = hg.Environment(executor=RecordingExecutor())
    numbers = env.from_collection([1, 2])
    later = numbers.map(str).collect_later()
    with pytest.raises(hg.PlanError, match="nothing was collected yet"):
        _ = later.records
    assert numbers.collect() == []
    with pytest.raises(hg.PlanError, match="nothing was collected yet"):
        _ = later.records
    assert env.execute().collected == {"collect": []}
    assert later.records == []
