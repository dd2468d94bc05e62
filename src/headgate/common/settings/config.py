"""The settings of one job: values by option, each with the place it came from.

Four layers, the later one wins: the option's default, Spark's configuration (``spark.headgate.*``), the
program, and ``-D key=value`` on the command line. Nothing is read from files or from the environment here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from headgate.common.errors import ConfigError
from headgate.common.settings import options as o
from headgate.common.settings.config_option import ConfigOption
from headgate.common.settings.options import OPTIONS, CheckpointingMode, RestartStrategyType
from headgate.common.time import format_ms

__all__ = ["Config", "ConfigOption", "Origin", "Setting", "effective_restart_strategy", "validate"]

T = TypeVar("T")

_SPARK_PREFIX: Final = "spark.headgate."


class Origin(IntEnum):
    """The layer that set an option's value; where several do, the higher one wins."""

    DEFAULT = 0
    SPARK = 1
    PROGRAM = 2
    COMMAND_LINE = 3

    @property
    def text(self) -> str:
        return ("default", "Spark configuration", "program", "command line")[self]


class Setting(NamedTuple, Generic[T]):
    """The value of an option that was set, and the layer that set it."""

    value: T
    origin: Origin


@dataclass(frozen=True)
class Config:
    """Immutable settings of one job; the ``with_`` methods return new ones, or raise ConfigError.

    Example:
        >>> program = Config().with_program({"heartbeat.timeout": "30s"})
        >>> config = program.with_command_line(["parallelism.default=4"])
        >>> config.get(o.HEARTBEAT_TIMEOUT), config.get(o.PARALLELISM_DEFAULT), config.get(o.BUFFER_TIMEOUT)
        (30000, 4, 10)
        >>> config.origin(o.PARALLELISM_DEFAULT).text
        'command line'
    """

    _settings: Mapping[str, Setting[Any]] = field(default_factory=dict)

    def get(self, option: ConfigOption[T]) -> T:
        """Return an option's value, its default where no layer sets it; durations in ms, sizes in bytes."""
        setting: Setting[T] | None = self._settings.get(option.key)
        return option.default if setting is None else setting.value

    def origin(self, option: ConfigOption[T]) -> Origin:
        """Return the layer that the value of an option came from; DEFAULT if none sets it."""
        setting = self._settings.get(option.key)
        return Origin.DEFAULT if setting is None else setting.origin

    def is_set(self, option: ConfigOption[T]) -> bool:
        return option.key in self._settings

    def texts(self) -> dict[str, str]:
        """Return key -> value, as text, of the options that are set; :meth:`from_texts` reads them back."""
        return {
            key: OPTIONS[key].kind.format(setting.value) for key, setting in sorted(self._settings.items())
        }

    def __iter__(self) -> Iterator[tuple[ConfigOption[Any], Any, Origin]]:
        for option in OPTIONS.values():
            yield option, self.get(option), self.origin(option)

    def __hash__(self) -> int:
        return hash(tuple(self.texts().items()))

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Config:
        """Return the settings that :meth:`texts` wrote, for another process; all count as the program's."""
        return cls().with_program(texts)

    def with_spark(self, spark_conf: Mapping[str, str]) -> Config:
        """Return settings with Spark's ``spark.headgate.*`` added, where program and command line set none.

        Other keys are ignored. ConfigError: an option does not exist, or a value does not fit its kind.
        """
        ours = {key: value for key, value in spark_conf.items() if key.startswith(_SPARK_PREFIX)}
        by_spark_key = {option.spark_key: option for option in OPTIONS.values()}
        for key in ours:
            if key not in by_spark_key:
                raise _unknown(key, Origin.SPARK, by_spark_key)
        return self._layered({by_spark_key[key].key: value for key, value in ours.items()}, Origin.SPARK)

    def with_program(self, values: Mapping[str, object]) -> Config:
        """Return settings with the program's `values` by key added, where the command line sets none.

        Values may be text, as "30s". ConfigError: an option does not exist, or a value does not fit its kind.
        """
        return self._layered(values, Origin.PROGRAM)

    def with_command_line(self, assignments: Iterable[str]) -> Config:
        """Return settings with ``key=value`` texts of ``-D`` added, which win over all other layers.
        Of two for one key the last counts. ConfigError: no "=", no such option, or a value of another kind.
        """
        example = "-D parallelism.default=2"
        return self._layered(assigned(assignments, example), Origin.COMMAND_LINE)

    def without(self, *beginnings: str, but: ConfigOption[T] | None = None) -> Config:
        """Return the settings without options whose keys begin with one of `beginnings`, except for `but`."""
        kept = {
            key: setting
            for key, setting in self._settings.items()
            if not key.startswith(beginnings) or (but is not None and key == but.key)
        }
        return Config(kept)

    def _layered(self, values: Mapping[str, object], origin: Origin) -> Config:
        settings = dict(self._settings)
        for key, value in values.items():
            option = OPTIONS.get(key)
            if option is None:
                raise _unknown(key, origin, OPTIONS)
            try:
                parsed = option.kind.parse(value)
            except ValueError as error:
                raise ConfigError(f"option {key} ({origin.text}) is {value!r}; {error}") from None
            if self.origin(option) <= origin:
                settings[key] = Setting(parsed, origin)
        return Config(settings)


def assigned(assignments: Iterable[str], example: str) -> dict[str, str]:
    """Return ``key=value`` texts as a dict, the last value wins; ConfigError (shows `example`) without =."""
    values = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"-D got {assignment!r}; expected key=value, such as {example}")
        values[key.strip()] = value
    return values


def _unknown(key: str, origin: Origin, known: Iterable[str]) -> ConfigError:
    nearest = difflib.get_close_matches(key, list(known), n=1, cutoff=0.0)
    return ConfigError(
        f"option {key!r} ({origin.text}) does not exist; did you mean {nearest[0]!r}? "
        "docs/config.md lists all options"
    )


def effective_restart_strategy(config: Config) -> RestartStrategyType:
    """Return the restart strategy in force; if none is set: exponential delay with checkpoints, else none."""
    chosen = config.get(o.RESTART_STRATEGY)
    if chosen is not None:
        return chosen
    with_checkpoints = config.get(o.CHECKPOINTING_INTERVAL) is not None
    return RestartStrategyType.EXPONENTIAL_DELAY if with_checkpoints else RestartStrategyType.NONE


def validate(config: Config) -> None:
    """Raise ConfigError if options contradict each other or one cannot work; it names them and their layers.

    Call it once, when all layers are in and before anything starts.
    """
    _less(config, o.HEARTBEAT_INTERVAL, o.LEASE, "a lease must outlive a heartbeat")
    _less(config, o.LEASE, o.HEARTBEAT_TIMEOUT, "a worker must have stopped before it is replaced")
    if config.get(o.MAX_PARALLELISM) == 0:
        raise ConfigError(f"{_shown(config, o.MAX_PARALLELISM)}; expected -1 (derived) or at least 1")
    folder = config.get(o.SAVEPOINT_DIR)
    if folder is not None and folder.lower().startswith("memory:"):
        raise ConfigError(
            f"{_shown(config, o.SAVEPOINT_DIR)}, which is lost with its process, but a savepoint outlives "
            "its job; name a folder or an object store"
        )
    if folder is None and config.get(o.ON_SIGTERM) is o.OnSigterm.SAVEPOINT:
        raise ConfigError(
            f"{_shown(config, o.ON_SIGTERM)}, and there is no place for the savepoint; set "
            f"{o.SAVEPOINT_DIR.key}"
        )
    for one, two, reason in (*_contradictions(config), *_contradictions_of_the_job(config)):
        raise ConfigError(f"{_shown(config, one)} and {_shown(config, two)} contradict each other: {reason}")
    _refuse_settings_of_other_strategies(config)


Contradiction: TypeAlias = tuple[ConfigOption[Any], ConfigOption[Any], str]
"""Two options whose values contradict each other, and why."""


def _contradictions(config: Config) -> Iterator[Contradiction]:
    get = config.get
    if get(o.EXPONENTIAL_INITIAL_BACKOFF) > get(o.EXPONENTIAL_MAX_BACKOFF):
        reason = "the first must not exceed the second"
        yield o.EXPONENTIAL_INITIAL_BACKOFF, o.EXPONENTIAL_MAX_BACKOFF, reason
    if 0 < get(o.MAX_PARALLELISM) < get(o.PARALLELISM_DEFAULT):
        reason = "a subtask without a key group would never get a record"
        yield o.PARALLELISM_DEFAULT, o.MAX_PARALLELISM, reason
    if get(o.CHECKPOINTING_INTERVAL) is not None and get(o.CHECKPOINTING_DIR) is None:
        reason = "checkpoints need a directory to be kept in"
        yield o.CHECKPOINTING_INTERVAL, o.CHECKPOINTING_DIR, reason
    if get(o.CHECKPOINTING_MIN_PAUSE) > 0 and get(o.CHECKPOINTING_MAX_CONCURRENT) > 1:
        reason = "a pause between checkpoints and two at the same time exclude each other"
        yield o.CHECKPOINTING_MIN_PAUSE, o.CHECKPOINTING_MAX_CONCURRENT, reason
    unaligned = get(o.UNALIGNED)
    if unaligned and get(o.CHECKPOINTING_MODE) is CheckpointingMode.AT_LEAST_ONCE:
        reason = (
            "at-least-once never waits, so barriers need not overtake; set the mode to EXACTLY_ONCE or turn "
            "unaligned checkpoints off"
        )
        yield o.UNALIGNED, o.CHECKPOINTING_MODE, reason
    if unaligned and get(o.CHECKPOINTING_MAX_CONCURRENT) > 1:
        reason = (
            "records that were overtaken belong to one checkpoint; set the second to 1 or turn unaligned "
            "checkpoints off"
        )
        yield o.UNALIGNED, o.CHECKPOINTING_MAX_CONCURRENT, reason


def _contradictions_of_the_job(config: Config) -> Iterator[Contradiction]:
    """Yield pairs of options that contradict each other where the program or command line sets the first.

    Spark's configuration serves many jobs: not all of them are unaligned, or have checkpoints to go on from,
    or state in RocksDB. ZooKeeper without servers is refused whichever layer sets it.
    """

    def set_by_job(option: ConfigOption[T]) -> bool:
        return config.origin(option) >= Origin.PROGRAM

    if set_by_job(o.ALIGNED_TIMEOUT) and not config.get(o.UNALIGNED):
        reason = f"only unaligned checkpoints have a timeout; set {o.UNALIGNED.key}=true or drop the timeout"
        yield o.ALIGNED_TIMEOUT, o.UNALIGNED, reason
    heap = config.get(o.STATE_BACKEND) is not o.StateBackendType.ROCKSDB
    if set_by_job(o.INCREMENTAL) and config.get(o.INCREMENTAL) and heap:
        reason = (
            "state in Python objects has no files of its own to share; set the backend to rocksdb or turn "
            "incremental checkpoints off"
        )
        yield o.INCREMENTAL, o.STATE_BACKEND, reason
    if set_by_job(o.CHANGELOG_MATERIALIZE_INTERVAL) and not config.get(o.CHANGELOG):
        reason = "without a changelog every checkpoint holds everything; turn it on or drop the interval"
        yield o.CHANGELOG_MATERIALIZE_INTERVAL, o.CHANGELOG, reason
    kind = config.get(o.HIGH_AVAILABILITY)
    if kind is o.HighAvailabilityType.NONE:
        return
    if set_by_job(o.HIGH_AVAILABILITY) and config.get(o.CHECKPOINTING_INTERVAL) is None:
        reason = "without checkpoints there is nothing to go on from; set an interval or drop the first"
        yield o.HIGH_AVAILABILITY, o.CHECKPOINTING_INTERVAL, reason
    if kind is o.HighAvailabilityType.ZOOKEEPER and config.get(o.HA_ZOOKEEPER_QUORUM) is None:
        yield o.HIGH_AVAILABILITY, o.HA_ZOOKEEPER_QUORUM, "name ZooKeeper's servers as host:port"


_STRATEGIES: Final = frozenset(strategy.value for strategy in RestartStrategyType)


def _refuse_settings_of_other_strategies(config: Config) -> None:
    # Parameters in Spark's configuration are accepted, as that serves many jobs.
    strategy = effective_restart_strategy(config)
    for option in OPTIONS.values():
        owner = option.key.removeprefix("restart-strategy.").partition(".")[0]
        belongs = option.key.startswith("restart-strategy.") and owner in _STRATEGIES
        if belongs and owner != strategy and config.origin(option) >= Origin.PROGRAM:
            raise ConfigError(
                f"{_shown(config, option)}, but the restart strategy in force is {strategy.value}; "
                f"set {o.RESTART_STRATEGY.key}={owner} or drop the parameter"
            )


def _less(config: Config, low: ConfigOption[int], high: ConfigOption[int], reason: str) -> None:
    if config.get(low) >= config.get(high):
        raise ConfigError(
            f"{_shown(config, low)} and {_shown(config, high)}; "
            f"expected the first below {format_ms(config.get(high))}: {reason}"
        )


def _shown(config: Config, option: ConfigOption[T]) -> str:
    return f"{option.key} is {option.kind.format(config.get(option))} ({config.origin(option).text})"
