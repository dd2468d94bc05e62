"""One configuration option: its key, its type, its default and the sentence that explains it.

The types are a closed set; each reads a value from text or from a Python object, and writes the text
that it reads back. The options are listed in :mod:`headgate.common.settings.options`; where values come
from is in :mod:`headgate.common.settings.config`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from headgate.common.time import duration_ms, format_ms

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=Enum)

_MEMORY_UNITS: Final = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MEMORY_PATTERN: Final = re.compile(r"(\d+)\s*(?:(b)|([kmgt])(?:i?b)?)", re.IGNORECASE)
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class OptionKind(Protocol[T_co]):
    """A type of option values: how they are read from text or Python objects, and written as text."""

    @property
    def expected(self) -> str:
        """What a valid value looks like, as words that can follow "expected" in a message."""

    def parse(self, value: object) -> T_co:
        """Return the value that a text or Python object stands for; ValueError says what is expected."""

    def format(self, value: Any) -> str:
        """Return the text of a valid value, which :meth:`parse` reads back to the same value."""


def _refuse(kind: OptionKind[T]) -> ValueError:
    return ValueError(f"expected {kind.expected}")


@contextmanager
def _refusing(kind: OptionKind[T]) -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError):
        raise _refuse(kind) from None


@dataclass(frozen=True)
class Text:
    """The kind of options whose value is any text that is not blank; blanks around it are cut off."""

    expected: str = "text that is not empty"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise _refuse(self)
        return value.strip()

    def format(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class Boolean:
    """The kind of options that are true or false; as text true, yes, on, 1 or false, no, off, 0."""

    expected: str = "true or false"

    def parse(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in _TRUE | _FALSE:
            raise _refuse(self)
        return word in _TRUE

    def format(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class Integer:
    """The kind of options whose value is a whole number from `low` to `high` (None: unbounded), inclusive.

    Values are read from an int or a text such as "12"; a bool and a float are refused.
    """

    low: int
    high: int | None = None

    @property
    def expected(self) -> str:
        return f"a whole number {_bounds(self.low, self.high)}"

    def parse(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _refuse(self)
        with _refusing(self):
            number = int(value)
        if number < self.low or (self.high is not None and number > self.high):
            raise _refuse(self)
        return number

    def format(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True)
class Number:
    """The kind of options whose value is a finite number from `low` to `high` (None: unbounded), inclusive.

    Values are read from an int, a float or a text; a bool is refused. The value is a float.
    """

    low: float
    high: float | None = None

    @property
    def expected(self) -> str:
        return f"a number {_bounds(self.low, self.high)}"

    def parse(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise _refuse(self)
        with _refusing(self):
            number = float(value)
        if not self.low <= number <= (sys.float_info.max if self.high is None else self.high):
            raise _refuse(self)
        return number

    def format(self, value: float) -> str:
        return repr(value)


def _bounds(low: float, high: float | None) -> str:
    return f"of at least {low:g}" if high is None else f"from {low:g} to {high:g}"


@dataclass(frozen=True)
class Duration:
    """The kind of options whose value is a span of time, kept as whole milliseconds, at least `low_ms`.

    Values are read from a `timedelta`, a number of milliseconds, or a text with a unit such as "10min". They
    are written in the largest unit that leaves a whole number.
    """

    low_ms: int = 0

    @property
    def expected(self) -> str:
        least = f" of at least {format_ms(self.low_ms)}" if self.low_ms else ""
        return f"a duration{least} such as '500ms', '1s', '10min', '2h' or '7d'"

    def parse(self, value: object) -> int:
        if isinstance(value, timedelta):
            value = value / timedelta(milliseconds=1)
        negative = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
        if negative or (isinstance(value, str) and value.strip().startswith("-")):
            raise ValueError(f"a duration cannot be negative; expected {self.expected}")
        if not isinstance(value, int | float | str):
            raise _refuse(self)
        with _refusing(self):
            span_ms = duration_ms(value)
        if span_ms < self.low_ms:
            raise _refuse(self)
        return span_ms

    def format(self, value: int) -> str:
        return format_ms(value)


@dataclass(frozen=True)
class MemorySize:
    """The kind of options whose value is a whole number of bytes, at least `low_bytes`.

    Values are read from an int (bytes) or a text with a unit, such as "64kb" or "1g"; units are powers of
    1024. They are written in the largest unit that leaves a whole number.
    """

    low_bytes: int = 1

    @property
    def expected(self) -> str:
        return f"a size of at least {self.format(self.low_bytes)} such as '64kb', '32mb' or '1gb'"

    def parse(self, value: object) -> int:
        size = value if isinstance(value, int) and not isinstance(value, bool) else -1
        if isinstance(value, str) and (match := _MEMORY_PATTERN.fullmatch(value.strip())):
            size = int(match[1]) * _MEMORY_UNITS[(match[2] or match[3]).lower()]
        if size < self.low_bytes:
            raise _refuse(self)
        return size

    def format(self, value: int) -> str:
        for unit in ("t", "g", "m", "k"):
            if value and value % _MEMORY_UNITS[unit] == 0:
                return f"{value // _MEMORY_UNITS[unit]}{unit}b"
        return f"{value}b"


@dataclass(frozen=True)
class Choice(Generic[E]):
    """The kind of options whose value is one of the members of the enumeration `names`.

    Values are read from a member, or from a member's value as text, in any case and with ``_`` or ``-``.
    """

    names: type[E]

    @property
    def expected(self) -> str:
        *most, last = [member.value for member in self.names]
        return f"{', '.join(most)} or {last}"

    def parse(self, value: object) -> E:
        for member in self.names:
            if value is member or (isinstance(value, str) and _plain(member.value) == _plain(value)):
                return member
        raise _refuse(self)

    def format(self, value: E) -> str:
        return str(value.value)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


@dataclass(frozen=True)
class OptionalKind(Generic[T]):
    """The kind of options that may be None, written as `word`; other values are of the kind `inner`."""

    inner: OptionKind[T]
    word: str = "none"

    @property
    def expected(self) -> str:
        return f"{self.inner.expected}, or {self.word}"

    def parse(self, value: object) -> T | None:
        if value is None or (isinstance(value, str) and value.strip().lower() == self.word):
            return None
        try:
            return self.inner.parse(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {self.word}") from None

    def format(self, value: T | None) -> str:
        return self.word if value is None else self.inner.format(value)


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """The definition of an option, as a program or the command line can set it.

    `key` is the dotted name, Flink's where Flink has the option; `default` its value where no layer sets it;
    `since` the first version of Headgate that had it.
    """

    key: str  # its dotted name, the field's own where the field has one
    kind: OptionKind[T]
    default: T  # its value where no layer sets it
    description: str  # one sentence for the page of options
    since: str = "0.1"  # the first version that had it

    @property
    def spark_key(self) -> str:
        """The option's name in Spark's own configuration, which keeps only keys that begin with ``spark.``.

        Example:
            >>> ConfigOption("heartbeat.timeout", Duration(), 1, "").spark_key
            'spark.headgate.heartbeat.timeout'
            >>> ConfigOption("headgate.lease", Duration(), 1, "").spark_key
            'spark.headgate.lease'
        """
        return "spark.headgate." + self.key.removeprefix("headgate.")


def flag(key: str, default: bool, description: str) -> ConfigOption[bool]:
    """Return the definition of an option, named `key`, that is true or false."""
    return ConfigOption(key, Boolean(), default, description)


def choice(key: str, default: E, description: str) -> ConfigOption[E]:
    """Return the definition of an option whose value is a member of the enumeration that `default` is of."""
    return ConfigOption(key, Choice(type(default)), default, description)


def optional_text(key: str, description: str) -> ConfigOption[str | None]:
    """Return the definition of an option that is text or, by default, None, which is written as "none"."""
    return ConfigOption(key, OptionalKind(Text()), None, description)


def optional_boolean(key: str, description: str, word: str = "unset") -> ConfigOption[bool | None]:
    """Return the definition of an option that is true, false or, by default, None, written as `word`."""
    return ConfigOption(key, OptionalKind(Boolean(), word), None, description)
