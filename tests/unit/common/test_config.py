"""Settings: layers, typed values, and refusals that name the way out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from enum import Enum

import pytest

from headgate.common.errors import ConfigError
from headgate.common.files.permissions import Permissions
from headgate.common.settings import loader_options, state_options
from headgate.common.settings import options as o
from headgate.common.settings.config import Config, Origin, effective_restart_strategy, validate
from headgate.common.settings.config_option import ConfigOption
from headgate.common.settings.options import OPTIONS, CheckpointingMode, RestartStrategyType

AT_LEAST_ONCE = CheckpointingMode.AT_LEAST_ONCE
SPARK = {
    "spark.headgate.lease": "7s",
    "spark.headgate.parallelism.default": "3",
    "spark.executor.memory": "1g",
}


def test_defaults_stand_when_nobody_says_anything() -> None:
    """An untouched configuration gives each option's default, and is valid."""
    config = Config()
    validate(config)
    assert all(value == option.default and origin is Origin.DEFAULT for option, value, origin in config)
    assert [option.key for option, _, _ in config] == list(OPTIONS)


@pytest.mark.parametrize(
    "order",
    [
        lambda c: (
            c.with_spark(SPARK)
            .with_program({"headgate.lease": "6s"})
            .with_command_line(["headgate.lease=5s"])
        ),
        lambda c: (
            c.with_command_line(["headgate.lease=5s"])
            .with_program({"headgate.lease": "6s"})
            .with_spark(SPARK)
        ),
    ],
    ids=["low to high", "high to low"],
)
def test_the_higher_layer_wins_in_any_order(order: Callable[[Config], Config]) -> None:
    """Command line beats program beats Spark beats default, whichever is added first."""
    config = order(Config())
    assert (config.get(o.LEASE), config.origin(o.LEASE)) == (5000, Origin.COMMAND_LINE)
    assert (config.get(o.PARALLELISM_DEFAULT), config.origin(o.PARALLELISM_DEFAULT)) == (3, Origin.SPARK)
    assert config.origin(o.BUFFER_TIMEOUT) is Origin.DEFAULT


def test_the_later_call_of_one_layer_wins() -> None:
    """A program that sets an option twice means the second value; so does a command line."""
    config = Config().with_program({"headgate.lease": "6s"}).with_program({"headgate.lease": "5s"})
    assert config.get(o.LEASE) == 5000
    assert Config().with_command_line(["headgate.lease=1s", "headgate.lease=2s"]).get(o.LEASE) == 2000


def test_no_key_is_of_two_options() -> None:
    """The later one would replace the earlier one in silence, and the earlier one would keep its default."""
    files = (state_options, o, loader_options)
    defined = {
        id(each): each for file in files for each in vars(file).values() if isinstance(each, ConfigOption)
    }
    assert sorted(each.key for each in defined.values()) == sorted(OPTIONS)


def test_adding_a_layer_leaves_the_old_configuration_alone() -> None:
    """A configuration never changes."""
    before = Config()
    before.with_program({"headgate.lease": "5s"})
    assert before == Config()
    with pytest.raises(AttributeError):
        before._settings = {}  # type: ignore[misc]


def test_only_sparks_keys_of_ours_are_read() -> None:
    """Spark's other settings are none of ours; a wrong key of ours is refused under Spark's name."""
    assert Config().with_spark({"spark.app.name": "x"}) == Config()
    with pytest.raises(ConfigError, match=r"spark\.headgate\.leese.*did you mean 'spark\.headgate\.lease'"):
        Config().with_spark({"spark.headgate.leese": "1s"})


def test_a_choice_may_be_a_member_of_its_enumeration() -> None:
    """Of any kind of enumeration; a member of another one is refused, though it may have the same value."""
    key = state_options.STORAGE_PERMISSIONS.key
    config = Config().with_program({key: Permissions.GROUP, "execution.checkpointing.mode": AT_LEAST_ONCE})
    assert config.get(state_options.STORAGE_PERMISSIONS) is Permissions.GROUP
    assert config.get(o.CHECKPOINTING_MODE) is AT_LEAST_ONCE
    with pytest.raises(ConfigError, match="owner"):
        Config().with_program({key: Enum("Other", {"GROUP": "group"})["GROUP"]})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("heartbeat-timeout", "heartbeat.timeout"),
        ("zzz", None),
    ],
)
def test_an_unknown_key_names_the_nearest(key: str, nearest: str | None) -> None:
    """A misspelt key is refused with the key that was probably meant."""
    with pytest.raises(ConfigError, match="does not exist; did you mean") as caught:
        Config().with_program({key: "1s"})
    assert nearest is None or repr(nearest) in str(caught.value)
    assert any(repr(known) in str(caught.value) for known in OPTIONS)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("heartbeat.timeout=-1s", "cannot be negative"),
        ("heartbeat.timeout=10", "a duration"),
        ("heartbeat.timeout=", "a duration"),
        ("parallelism.default=two", "a whole number from 1 to 32768"),
        ("parallelism.default=0", "a whole number from 1 to 32768"),
        ("pipeline.max-parallelism=32769", "a whole number from -1 to 32768"),
        ("execution.checkpointing.mode=TWICE", "EXACTLY_ONCE or AT_LEAST_ONCE"),
        ("restart-strategy.type=never", "none, fixed-delay, failure-rate or exponential-delay"),
        ("restart-strategy.exponential-delay.jitter-factor=1.5", "a number from 0 to 1"),
        ("restart-strategy.exponential-delay.backoff-multiplier=nan", "a number of at least 1"),
        ("taskmanager.network.frame-size-max=1kb", "a size of at least 64kb"),
        ("taskmanager.network.frame-size-max=big", "a size"),
        ("execution.checkpointing.interval=0ms", "at least 1ms"),
        ("headgate.network.bind-host= ", "text that is not empty"),
        ("execution.checkpointing.unaligned.enabled=perhaps", "true or false"),
        ("execution.checkpointing.aligned-checkpoint-timeout=-1s", "cannot be negative"),
        ("execution.checkpointing.unaligned.max-in-flight-size=0b", "a size of at least 1b"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(assignment: str, said: str) -> None:
    """The refusal names the option, the place it was set, what was got and what was expected."""
    with pytest.raises(ConfigError, match=said) as caught:
        Config().with_command_line([assignment])
    key, _, value = assignment.partition("=")
    assert f"option {key} (command line) is {value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallelism.default", True),
        ("parallelism.default", 2.0),
        ("heartbeat.timeout", True),
        ("heartbeat.timeout", -1),
        ("heartbeat.timeout", timedelta(seconds=-1)),
        ("heartbeat.timeout", None),
        ("heartbeat.timeout", float("nan")),
        ("heartbeat.timeout", float("inf")),
        ("headgate.network.bind-host", 5),
        ("execution.checkpointing.mode", 1),
        ("taskmanager.network.frame-size-max", True),
    ],
)
def test_a_python_value_of_the_wrong_type_is_refused(key: str, value: object) -> None:
    """A bool is no number, and nothing is converted by guessing."""
    with pytest.raises(ConfigError, match=f"option {key} \\(program\\)"):
        Config().with_program({key: value})


@pytest.mark.parametrize("assignment", ["parallelism.default", "", "parallelism.default 4"])
def test_an_assignment_needs_an_equals_sign(assignment: str) -> None:
    """`-D` without a value is refused with an example."""
    with pytest.raises(ConfigError, match="expected key=value"):
        Config().with_command_line([assignment])


def test_values_come_as_text_or_as_python_values() -> None:
    """Each type reads its text and the Python values that mean the same."""
    config = Config().with_program(
        {
            "heartbeat.interval": timedelta(seconds=2),
            "heartbeat.timeout": 20_000,
            "headgate.lease": " 9s ",
            "taskmanager.network.frame-size-max": "32 MiB",
            "execution.checkpointing.mode": "at-least-once",
            "execution.checkpointing.interval": None,
            "restart-strategy.type": RestartStrategyType.FIXED_DELAY,
            "restart-strategy.exponential-delay.jitter-factor": 0,
        }
    )
    assert config.get(o.HEARTBEAT_INTERVAL) == 2000
    assert config.get(o.HEARTBEAT_TIMEOUT) == 20_000
    assert config.get(o.LEASE) == 9000
    assert config.get(o.FRAME_SIZE_MAX) == 32 * 2**20
    assert config.get(o.CHECKPOINTING_MODE) is CheckpointingMode.AT_LEAST_ONCE
    assert config.get(o.CHECKPOINTING_INTERVAL) is None
    assert config.is_set(o.CHECKPOINTING_INTERVAL)
    assert config.get(o.RESTART_STRATEGY) is RestartStrategyType.FIXED_DELAY
    assert config.get(o.EXPONENTIAL_JITTER) == 0.0


def test_a_configuration_travels_as_text_and_as_pickle() -> None:
    """What was set arrives in another process with the same values."""
    values = {
        "headgate.lease": "6s",
        "execution.checkpointing.interval": "500ms",
        "restart-strategy.type": "none",
    }
    config = Config().with_program(values)
    assert config.texts() == values
    assert Config.from_texts(config.texts()) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(Config.from_texts(values)) == hash(config)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (
            ["headgate.lease=10s"],
            ["headgate.lease is 10s (command line)", "heartbeat.timeout is 10s (default)"],
        ),
        (["heartbeat.interval=8s"], ["heartbeat.interval is 8s", "headgate.lease is 8s"]),
        (["execution.checkpointing.interval=1s"], ["execution.checkpointing.dir is none"]),
        (["pipeline.max-parallelism=0"], ["pipeline.max-parallelism is 0", "expected -1"]),
        (
            ["pipeline.max-parallelism=4", "parallelism.default=5"],
            ["parallelism.default is 5", "pipeline.max-parallelism is 4"],
        ),
        (
            ["execution.checkpointing.min-pause=1s", "execution.checkpointing.max-concurrent-checkpoints=2"],
            ["min-pause is 1s", "max-concurrent-checkpoints is 2"],
        ),
        (
            [
                "execution.checkpointing.unaligned.enabled=true",
                "execution.checkpointing.mode=AT_LEAST_ONCE",
            ],
            [
                "execution.checkpointing.unaligned.enabled is true (command line)",
                "execution.checkpointing.mode is AT_LEAST_ONCE (command line)",
                "set the mode to EXACTLY_ONCE or turn unaligned checkpoints off",
            ],
        ),
        (
            [
                "execution.checkpointing.unaligned.enabled=true",
                "execution.checkpointing.max-concurrent-checkpoints=2",
            ],
            [
                "execution.checkpointing.unaligned.enabled is true (command line)",
                "execution.checkpointing.max-concurrent-checkpoints is 2 (command line)",
                "set the second to 1 or turn unaligned checkpoints off",
            ],
        ),
        (
            ["execution.checkpointing.aligned-checkpoint-timeout=5s"],
            [
                "execution.checkpointing.aligned-checkpoint-timeout is 5s (command line)",
                "execution.checkpointing.unaligned.enabled is false (default)",
                "set execution.checkpointing.unaligned.enabled=true or drop the timeout",
            ],
        ),
        (
            ["execution.checkpointing.aligned-checkpoint-timeout=0ms"],
            ["aligned-checkpoint-timeout is 0ms (command line)", "unaligned.enabled is false (default)"],
        ),
        (
            ["execution.checkpointing.incremental=true"],
            [
                "execution.checkpointing.incremental is true (command line)",
                "state.backend.type is hashmap (default)",
                "set the backend to rocksdb or turn incremental checkpoints off",
            ],
        ),
        (
            [
                "restart-strategy.type=exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff=2min",
            ],
            ["initial-backoff is 2min", "max-backoff is 1min (default)"],
        ),
        (
            ["restart-strategy.fixed-delay.attempts=3"],
            ["in force is none", "restart-strategy.type=fixed-delay"],
        ),
        (
            ["restart-strategy.type=failure-rate", "restart-strategy.fixed-delay.attempts=3"],
            ["in force is failure-rate", "restart-strategy.type=fixed-delay"],
        ),
    ],
)
def test_contradictions_name_both_sides(settings: list[str], named: list[str]) -> None:
    """Options that cannot both hold are refused together, each with its value and where it was set."""
    config = Config().with_command_line(settings)
    with pytest.raises(ConfigError) as caught:
        validate(config)
    assert [part for part in named if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    "settings",
    [
        ["headgate.lease=9999ms"],
        ["execution.checkpointing.interval=1s", "execution.checkpointing.dir=/var/checkpoints"],
        ["execution.checkpointing.min-pause=1s"],
        ["execution.checkpointing.max-concurrent-checkpoints=2"],
        ["execution.checkpointing.mode=AT_LEAST_ONCE"],
        [
            "execution.checkpointing.mode=AT_LEAST_ONCE",
            "execution.checkpointing.max-concurrent-checkpoints=2",
        ],
        ["execution.checkpointing.unaligned.enabled=true"],
        [
            "execution.checkpointing.unaligned.enabled=true",
            "execution.checkpointing.aligned-checkpoint-timeout=5s",
        ],
        [
            "execution.checkpointing.unaligned.enabled=false",
            "execution.checkpointing.max-concurrent-checkpoints=2",
        ],
        ["pipeline.max-parallelism=5", "parallelism.default=5"],
        ["execution.checkpointing.incremental=true", "state.backend.type=rocksdb"],
        ["execution.checkpointing.incremental=false"],
        ["restart-strategy.type=fixed-delay", "restart-strategy.fixed-delay.attempts=3"],
    ],
)
def test_what_just_fits_is_accepted(settings: list[str]) -> None:
    """The border of each rule lies where it says."""
    validate(Config().with_command_line(settings))


def test_sparks_configuration_may_serve_jobs_with_other_strategies() -> None:
    """Parameters of a strategy not in force are an error in a job, not in a cluster's settings."""
    validate(Config().with_spark({"spark.headgate.restart-strategy.fixed-delay.attempts": "3"}))


def test_sparks_configuration_may_hold_a_timeout_for_unaligned_jobs() -> None:
    """A cluster's timeout is there for the jobs that are unaligned; the others run as before."""
    timeout = {"spark.headgate.execution.checkpointing.aligned-checkpoint-timeout": "5s"}
    validate(Config().with_spark(timeout))
    enabled = {"execution.checkpointing.unaligned.enabled": True}
    config = Config().with_spark(timeout).with_program(enabled)
    validate(config)
    assert config.get(o.ALIGNED_TIMEOUT) == 5000


def test_sparks_configuration_may_ask_for_incremental_checkpoints_of_whoever_can() -> None:
    """A cluster's wish concerns the jobs with state in RocksDB; the others run as before."""
    validate(Config().with_spark({"spark.headgate.execution.checkpointing.incremental": "true"}))


def test_a_contradiction_across_layers_names_each_origin() -> None:
    """What the cluster sets and what the program sets are told apart."""
    config = (
        Config()
        .with_spark({"spark.headgate.execution.checkpointing.unaligned.enabled": "true"})
        .with_program({"execution.checkpointing.mode": "AT_LEAST_ONCE"})
    )
    with pytest.raises(
        ConfigError, match=r"enabled is true \(Spark configuration\) and .* AT_LEAST_ONCE \(program\)"
    ):
        validate(config)


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({}, RestartStrategyType.NONE),
        ({"execution.checkpointing.interval": "1s"}, RestartStrategyType.EXPONENTIAL_DELAY),
        (
            {"execution.checkpointing.interval": "1s", "restart-strategy.type": "none"},
            RestartStrategyType.NONE,
        ),
        (
            {"execution.checkpointing.interval": "1s", "restart-strategy.type": "unset"},
            RestartStrategyType.EXPONENTIAL_DELAY,
        ),
        ({"restart-strategy.type": "fixed-delay"}, RestartStrategyType.FIXED_DELAY),
    ],
)
def test_the_strategy_follows_checkpoints_unless_set(
    settings: dict[str, str], strategy: RestartStrategyType
) -> None:
    """Unset, restarts happen exactly when there are checkpoints to restart from; a set value always holds."""
    assert effective_restart_strategy(Config().with_program(settings)) is strategy
