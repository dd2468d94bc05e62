"""``headgate options``: the reference page of all settings, on the terminal."""

from __future__ import annotations

import difflib
import textwrap
from typing import TypeVar

from headgate.common.errors import ConfigError
from headgate.common.settings.config_option import ConfigOption
from headgate.common.settings.options import OPTIONS

T = TypeVar("T")


def page(key: str | None = None, width: int = 100) -> str:
    """Return the page, wrapped at `width`, of all options, those below prefix `key`, or option `key` in full.

    The option may be given by its name for Spark, ``spark.headgate...``. ConfigError for an unknown key.

    Example:
        >>> print(page("execution.buffer-timeout"))
        execution.buffer-timeout
          default:   10ms
          values:    a duration such as '500ms', '1s', '10min', '2h' or '7d'
          in Spark:  spark.headgate.execution.buffer-timeout
          since:     0.1
        <BLANKLINE>
          Longest time a record waits for its batch to fill; 0ms sends after every step.
    """
    options = list(OPTIONS.values())
    if key is None:
        return "\n\n".join(_short(option, width) for option in options)
    for option in options:
        if key in (option.key, option.spark_key):
            return _full(option, width)
    below = [option for option in options if option.key.startswith(key.rstrip(".") + ".")]
    if not below:
        nearest = difflib.get_close_matches(key, list(OPTIONS), n=1, cutoff=0.0)
        raise ConfigError(f"option {key!r} does not exist; did you mean {nearest[0]!r}?")
    return "\n\n".join(_short(option, width) for option in below)


def _short(option: ConfigOption[T], width: int) -> str:
    return f"{option.key} = {_default(option)}\n{_wrapped(option.description, width, '    ')}"


def _full(option: ConfigOption[T], width: int) -> str:
    facts = {
        "default": _default(option),
        "values": option.kind.expected,
        "in Spark": option.spark_key,
        "since": option.since,
    }
    lines = [f"  {name + ':':<11}{text}" for name, text in facts.items()]
    return "\n".join([option.key, *lines, "", _wrapped(option.description, width, "  ")])


def _default(option: ConfigOption[T]) -> str:
    return option.kind.format(option.default)


def _wrapped(text: str, width: int, indent: str) -> str:
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
