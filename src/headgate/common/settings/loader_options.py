"""The options `classloader.*`: how the code of a job's user is loaded; `usercode` acts on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headgate.common.settings.config_option import (
    Boolean,
    ConfigOption,
    Duration,
    Integer,
    MemorySize,
    choice,
    flag,
    optional_text,
)

MANDATORY_PATTERNS: Final = ("headgate.", "pyspark.", "py4j.")
"""Without these a user's class would derive from another `headgate` than the one that runs it."""
DEFAULT_PATTERNS: Final = (*MANDATORY_PATTERNS, "pyspark_headgate.", "rocksdict.")
DATA_PLANE: Final = ("numpy.", "pandas.", "pyarrow.")
"""Their objects pass between the framework and user code, so there must be one copy of each in a process."""
LEAKED_LOADERS_MAX: Final = 3
LEAKED_BYTES_MAX: Final = 256 << 20


class Isolation(Enum):
    """`headgate.user-code.apart`: whether a program's modules are kept apart from all other ones."""

    AUTO = "auto"  # where something could clash; `usercode.isolation` decides
    ALWAYS = "true"
    NEVER = "false"


class ResolveOrder(Enum):
    """Whose copy of a module comes first if no pattern fits: the job's (child), the framework's (parent)."""

    CHILD_FIRST = "child-first"
    PARENT_FIRST = "parent-first"


class NativeModules(Enum):
    """`classloader.native-modules`: where packages with compiled parts run; `usercode.native` decides."""

    AUTO = "auto"  # in-process, unless it would clash with the framework's: then process
    PROCESS = "process"  # in worker processes of their own environment
    IN_PROCESS = "in-process"  # next to the framework's
    PARENT = "parent"  # the framework's copy is used where it has one, else as auto
    FAIL = "fail"  # nowhere: a job that brings one other than the framework's is refused


class DependencyLayer(Enum):
    """`classloader.dependency-layer`: which third-party packages stay loaded when their job has ended."""

    NATIVE = "native"  # all of a job that runs one with compiled parts next to the framework's
    ALWAYS = "always"  # all
    NEVER = "never"  # none


def pattern_list(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return patterns given as a list, or as one text with semicolons, stripped and without empty ones.

    Example:
        >>> pattern_list(" attr. ; ;numpy.")
        ('attr.', 'numpy.')
    """
    parts = text.split(";") if isinstance(text, str) else text
    return tuple(part.strip() for part in parts if part.strip())


@dataclass(frozen=True)
class TextList:
    """The kind of options whose value is a list of texts, written with semicolons in between."""

    expected: str

    def parse(self, value: object) -> tuple[str, ...]:
        """Return a text's parts between semicolons, or a list's texts, stripped and without empty ones.

        ValueError for all else, also for a list's text with a semicolon: workers would read it as two.
        """
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"expected {self.expected}")
        if not isinstance(value, str) and (parted := [text for text in texts if ";" in text]):
            raise ValueError(f"expected texts without a semicolon in a list; got {parted[0]!r}")
        return pattern_list(value if isinstance(value, str) else texts)

    def format(self, value: tuple[str, ...]) -> str:
        return ";".join(value)


@dataclass(frozen=True)
class IsolationKind:
    """The kind of options that are ``auto``, true or false; values are members of `Isolation`.

    Values are read from a member, from ``auto`` as text, or from what :class:`Boolean` reads.
    """

    expected: str = "auto, true or false"

    def parse(self, value: object) -> Isolation:
        if isinstance(value, Isolation):
            return value
        if isinstance(value, str) and value.strip().lower() == Isolation.AUTO.value:
            return Isolation.AUTO
        try:
            return Isolation.ALWAYS if Boolean().parse(value) else Isolation.NEVER
        except ValueError:
            raise ValueError(f"expected {self.expected}") from None

    def format(self, value: Isolation) -> str:
        return value.value


PATTERNS: Final = TextList("prefixes of module names with semicolons in between, such as 'yaml.;attr.'")
PATHS: Final = TextList("paths with semicolons in between, such as 'deps;attrs-24.2.0-py3-none-any.whl'")

USER_CODE_APART: Final = ConfigOption(
    "headgate.user-code.apart",
    IsolationKind(),
    Isolation.AUTO,
    "Whether the modules of a program that `headgate run` or `hg.run_program` runs are isolated from the "
    "framework's and other jobs' packages: auto where something could clash (it brings packages, shares its "
    "process with other programs, or a module beside it has the name of another one); `false` is as by "
    "python itself.",
)
USER_CODE_PATH: Final = ConfigOption[tuple[str, ...]](
    "headgate.user-code.path",
    PATHS,
    (),
    "What a program brings besides the modules in its own folder: folders, archives, wheels, in order of "
    "search; `--with` of the command line.",
)
USER_CODE_REQUIREMENTS: Final = optional_text(
    "headgate.user-code.requirements",
    "A requirements file, pinned with hashes, whose wheels the program brings as well; `--requirements` of "
    "the command line.",
)
RESOLVE_ORDER: Final = choice(
    "classloader.resolve-order",
    ResolveOrder.CHILD_FIRST,
    "Whose copy of a module is taken that both the job and the framework have, where no pattern settles it.",
)
PATTERNS_DEFAULT: Final = ConfigOption(
    "classloader.parent-first-patterns.default",
    PATTERNS,
    DEFAULT_PATTERNS,
    "Modules that are always the framework's if it has them; meant to be left as it is.",
)
PATTERNS_ADDITIONAL: Final = ConfigOption[tuple[str, ...]](
    "classloader.parent-first-patterns.additional", PATTERNS, (), "More of them: those of a job or cluster."
)
FAIL_ON_EXHAUSTION: Final = flag(
    "classloader.fail-on-metaspace-oom-error",
    True,
    "Whether a process ends when memory runs out while user code is loaded, or too much of ended jobs stays.",
)
CHECK_LEAKED: Final = flag(
    "classloader.check-leaked-classloader",
    True,
    "Whether code of a job that has ended is refused when it asks for a module.",
)
NATIVE_MODULES: Final = choice(
    "classloader.native-modules", NativeModules.AUTO, "Where packages with compiled parts run."
)
DATA_PLANE_PACKAGES: Final = ConfigOption(
    "classloader.data-plane-packages",
    PATTERNS,
    DATA_PLANE,
    "Packages whose objects pass between the framework and user code.",
)
DEPENDENCY_LAYER: Final = choice(
    "classloader.dependency-layer",
    DependencyLayer.NATIVE,
    "Which jobs' packages lie in a layer that is kept when the job ends.",
)
MAX_LEAKED_LOADERS: Final = ConfigOption(
    "classloader.max-leaked-loaders",
    Integer(0),
    LEAKED_LOADERS_MAX,
    "How many loaders of ended jobs may stay in memory.",
)
MAX_LEAKED_MEMORY: Final = ConfigOption(
    "classloader.max-leaked-memory", MemorySize(0), LEAKED_BYTES_MAX, "How much memory they may hold."
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
JVM_RESOLVE_ORDER: Final = choice(
    "classloader.jvm.resolve-order",
    ResolveOrder.PARENT_FIRST,
    "The same for JVM jars, for the whole application: child-first sets Spark's userClassPathFirst.",
)

BEGINNINGS: Final = ("headgate.user-code.", "classloader.")  # of the keys of all options of this file
LOADER_OPTIONS: Final[Mapping[str, ConfigOption[Any]]] = {
    option.key: option
    for option in list(globals().values())
    if isinstance(option, ConfigOption) and option.key.startswith("classloader.")
}
"""Every option of the loader by its key, in the order of this file."""
