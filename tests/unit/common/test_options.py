"""The list of options: complete, documented, and each default says what its type can say."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.settings import options as o
from headgate.common.settings.config_option import ConfigOption, Duration, MemorySize
from headgate.common.settings.options import OPTIONS
from scripts.generate_config_docs import PAGE, render

ALL = list(OPTIONS.values())


def test_the_page_of_options_is_current() -> None:
    """docs/config.md is what the list generates; run `make docs` after a change."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_option_is_on_the_page_once() -> None:
    """No option is missing from the page or there twice."""
    found = Counter(re.findall(r"^\| `([^`]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert found == Counter(OPTIONS.keys())


def test_every_constant_is_in_the_list() -> None:
    """An option defined in the module is an option users can set."""
    assert [value for value in vars(o).values() if isinstance(value, ConfigOption) and value not in ALL] == []


@pytest.mark.parametrize("option", ALL, ids=lambda option: option.key)
def test_a_default_reads_back_from_its_text(option: ConfigOption[Any]) -> None:
    """The documented default, typed in, is the default."""
    assert option.kind.parse(option.kind.format(option.default)) == option.default


@pytest.mark.parametrize("option", ALL, ids=lambda option: option.key)
def test_a_description_is_one_sentence(option: ConfigOption[Any]) -> None:
    """Each option is explained in one sentence, and its key is lower case with dots and dashes."""
    assert re.fullmatch(r"[A-Z].*[a-z)]\.", option.description)
    assert ". " not in option.description
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z]+)*(\.[a-z]+(-[a-z]+)*)+", option.key)


def test_names_in_sparks_configuration_are_distinct() -> None:
    """No two options share a name in Spark's configuration."""
    assert len({option.spark_key for option in ALL}) == len(ALL)


@given(st.integers(0, 10**15))
def test_durations_read_back(span_ms: int) -> None:
    """A duration written as text is read back to the same milliseconds."""
    assert Duration().parse(Duration().format(span_ms)) == span_ms


@given(st.integers(1, 2**60))
def test_sizes_read_back(size: int) -> None:
    """A size written as text is read back to the same bytes."""
    assert MemorySize().parse(MemorySize().format(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", None), ("1b", 1), ("1k", 1024), ("1kb", 1024), ("2KiB", 2048), ("3 mb", 3 << 20), ("1g", 1 << 30),
     ("1tb", 1 << 40), ("1.5gb", None), ("-1b", None), ("b", None), ("1bb", None)],
)  # fmt: skip
def test_sizes_are_powers_of_1024(text: str, size: int | None) -> None:
    """The usual spellings of units mean powers of 1024; a size without unit is refused."""
    if size is None:
        with pytest.raises(ValueError, match="expected a size"):
            MemorySize().parse(text)
    else:
        assert MemorySize().parse(text) == size
