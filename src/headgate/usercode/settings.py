"""What a job says about the loading of its code: the options `classloader.*`, read from texts and checked.

Pure. The options are not yet among those of jobs; whoever has them as texts reads them here::

    UserCodeSettings.from_texts({"classloader.resolve-order": "parent-first"})
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headgate.common.config_option import Boolean, Choice, ConfigOption, Duration, Integer, MemorySize
from headgate.common.errors import ConfigError
from headgate.usercode.exhaustion import LoaderBounds
from headgate.usercode.native.policy import DATA_PLANE, NativeModules
from headgate.usercode.patterns import DEFAULT, ParentFirst, parent_first, pattern_list
from headgate.usercode.resolution import ResolveOrder

PREFIX: Final = "classloader."


class DependencyLayer(Enum):
    """`classloader.dependency-layer`: when packages of others outlive the job that brought them."""

    NATIVE = "native"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Patterns:
    """Prefixes of module names, with semicolons in between."""

    expected: str = "prefixes of module names with semicolons in between, such as 'yaml.;attr.'"

    def parse(self, value: object) -> tuple[str, ...]:
        """The patterns of a text or of a list of texts; blanks and empty ones are dropped."""
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"expected {self.expected}")
        return pattern_list(value if isinstance(value, str) else texts)

    def format(self, value: tuple[str, ...]) -> str:
        """As one text."""
        return ";".join(value)


RESOLVE_ORDER: Final = ConfigOption(
    "classloader.resolve-order",
    Choice(ResolveOrder),
    ResolveOrder.CHILD_FIRST,
    "Whose copy of a module is taken that both the job and the framework have, where no pattern settles it.",
)
PATTERNS_DEFAULT: Final = ConfigOption(
    "classloader.parent-first-patterns.default",
    Patterns(),
    DEFAULT,
    "Modules that are always the framework's if it has them; meant to be left as it is.",
)
PATTERNS_ADDITIONAL: Final = ConfigOption[tuple[str, ...]](
    "classloader.parent-first-patterns.additional",
    Patterns(),
    (),
    "More of them: those of a job or cluster.",
)
FAIL_ON_EXHAUSTION: Final = ConfigOption(
    "classloader.fail-on-metaspace-oom-error",
    Boolean(),
    True,
    "Whether a process ends when memory runs out while user code is loaded, or too much of ended jobs stays.",
)
CHECK_LEAKED: Final = ConfigOption(
    "classloader.check-leaked-classloader",
    Boolean(),
    True,
    "Whether code of a job that has ended is refused when it asks for a module.",
)
NATIVE_MODULES: Final = ConfigOption(
    "classloader.native-modules",
    Choice(NativeModules),
    NativeModules.AUTO,
    "Where packages with compiled parts run.",
)
DATA_PLANE_PACKAGES: Final = ConfigOption(
    "classloader.data-plane-packages",
    Patterns(),
    DATA_PLANE,
    "Packages whose objects pass between the framework and user code.",
)
DEPENDENCY_LAYER: Final = ConfigOption(
    "classloader.dependency-layer",
    Choice(DependencyLayer),
    DependencyLayer.NATIVE,
    "Which jobs' packages lie in a layer that is kept when the job ends.",
)
MAX_LEAKED_LOADERS: Final = ConfigOption(
    "classloader.max-leaked-loaders",
    Integer(0),
    LoaderBounds().loaders,
    "How many loaders of ended jobs may stay in memory.",
)
MAX_LEAKED_MEMORY: Final = ConfigOption(
    "classloader.max-leaked-memory",
    MemorySize(0),
    LoaderBounds().bytes,
    "How much memory they may hold.",
)
MAX_LAYERS: Final = ConfigOption(
    "classloader.max-layers-per-process",
    Integer(0),
    2,
    "How many kept layers of native packages a process may hold.",
)
MAX_ENVIRONMENTS: Final = ConfigOption(
    "classloader.max-process-environments",
    Integer(1),
    8,
    "How many environments may have worker processes of their own.",
)
RELEASE_TIMEOUT: Final = ConfigOption(
    "classloader.release-timeout",
    Duration(),
    30_000,
    "Time between the end of a loader and the verdict that it has leaked.",
)
JVM_RESOLVE_ORDER: Final = ConfigOption(
    "classloader.jvm.resolve-order",
    Choice(ResolveOrder),
    ResolveOrder.PARENT_FIRST,
    "The same for JVM jars, for the whole application: child-first sets Spark's userClassPathFirst.",
)

LOADER_OPTIONS: Final[Mapping[str, ConfigOption[Any]]] = {
    option.key: option for option in list(globals().values()) if isinstance(option, ConfigOption)
}
"""Every option of the loader by its key, in the order of this file."""


@dataclass(frozen=True, slots=True)
class UserCodeSettings:
    """The options of the loader, each with its value.

    Attributes:
        resolve_order: of Python modules.
        patterns_default: as set; :attr:`patterns` is what is in force.
        patterns_additional: as set.
        fail_on_exhaustion: whether exhausted memory ends the process.
        check_leaked: whether code behind its job's end is refused.
        native_modules: where native packages run.
        data_plane: patterns of packages whose objects meet.
        dependency_layer: which packages outlive a job.
        leaked_loaders_max: loaders of ended jobs.
        leaked_bytes_max: memory that they hold.
        layers_max: kept layers in a process.
        environments_max: environments with processes of their own.
        release_timeout_ms: grace before a loader counts as leaked.
        jvm_resolve_order: of JVM classes.

    Example:
        >>> settings = UserCodeSettings.from_texts({"classloader.resolve-order": "Parent_First"})
        >>> settings.resolve_order.value, settings.native_modules.value
        ('parent-first', 'auto')
    """

    resolve_order: ResolveOrder = RESOLVE_ORDER.default
    patterns_default: tuple[str, ...] = PATTERNS_DEFAULT.default
    patterns_additional: tuple[str, ...] = PATTERNS_ADDITIONAL.default
    fail_on_exhaustion: bool = FAIL_ON_EXHAUSTION.default
    check_leaked: bool = CHECK_LEAKED.default
    native_modules: NativeModules = NATIVE_MODULES.default
    data_plane: tuple[str, ...] = DATA_PLANE_PACKAGES.default
    dependency_layer: DependencyLayer = DEPENDENCY_LAYER.default
    leaked_loaders_max: int = MAX_LEAKED_LOADERS.default
    leaked_bytes_max: int = MAX_LEAKED_MEMORY.default
    layers_max: int = MAX_LAYERS.default
    environments_max: int = MAX_ENVIRONMENTS.default
    release_timeout_ms: int = RELEASE_TIMEOUT.default
    jvm_resolve_order: ResolveOrder = JVM_RESOLVE_ORDER.default

    @classmethod
    def from_texts(cls, texts: Mapping[str, object]) -> UserCodeSettings:
        """The settings of some options; all others have their defaults.

        Args:
            texts: values by key, as texts, or of lists as lists.

        Raises:
            ConfigError: a key is no option of the loader, or a value is none of the option's.
        """
        values = {_FIELDS[_known(key)]: _parsed(key, value) for key, value in texts.items()}
        return cls(**values)

    @property
    def patterns(self) -> ParentFirst:
        """Both lists as one, with the patterns that cannot be left out."""
        return parent_first(self.patterns_default, self.patterns_additional)

    @property
    def bounds(self) -> LoaderBounds:
        """How much of ended jobs a process may keep."""
        return LoaderBounds(self.leaked_loaders_max, self.leaked_bytes_max)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know, one sentence each."""
        readded = self.patterns.readded
        if not readded:
            return ()
        said = (
            f"{PATTERNS_DEFAULT.key} lacks {'; '.join(readded)}, which stay parent-first all the same: "
            f"user code must see the framework's own classes; add patterns by {PATTERNS_ADDITIONAL.key}"
        )
        return (said,)


_FIELDS: Final = dict(zip(LOADER_OPTIONS, UserCodeSettings.__dataclass_fields__, strict=True))
"""The field of each key: both are in the same order."""


def _known(key: str) -> str:
    if key in LOADER_OPTIONS:
        return key
    nearest = difflib.get_close_matches(key, LOADER_OPTIONS, n=1, cutoff=0.0)
    raise ConfigError(
        f"option {key!r} is none of user code's; did you mean {nearest[0]!r}? docs/user-code.md lists them"
    )


def _parsed(key: str, value: object) -> Any:
    try:
        return LOADER_OPTIONS[key].kind.parse(value)
    except ValueError as error:
        raise ConfigError(f"option {key} is {value!r}; {error}") from None
