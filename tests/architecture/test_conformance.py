"""Every scenario of the conformance table has a test that says so: its id stands in the test's docstring."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest
from source_tree import modules

SCENARIOS = re.findall(
    r"s\w+",
    """
    sT1 sT2 sT3 sT5 sT6 sT8 sL1 sL2 sL4 sL6 sL7 sL8 sL11 sU4 sU5 sU7 sU9 sX1 sX2 sX5 sX6 sX7 sX8 sX11
    sK2 sK3 sC1 sC2 sC3 sC5 sC7 sC8 sC9 sC10 sC12 sC13 sC14 sC15 sC16 sC17 sC21 sR1 sR4 sR5
    sS1 sS2 sS4 sS6 sS7 sG1 sG2 sG3 sG4 sO1 sO2 sO3 sO4 sO7 sJ1 sJ3 sF1 sF3
    """,
)
"""Cases whose inputs and outcomes are known from the field: barriers (T, L, U, X), tasks and the
coordinator (K, C), stores (R), serializers (S), key groups (G), operator state and records in flight (O),
user code (J), failover (F).
"""

_ID = re.compile(r"\bs[A-Z]\d+\b")
_NAMED = re.compile(r"test_s([a-z])(\d+)_")


@cache
def stated() -> tuple[tuple[str, str, str], ...]:
    """File, name and docstring of every test that `.ci/run` runs."""
    return tuple(_stated())


def _stated() -> Iterator[tuple[str, str, str]]:
    for module in modules("tests"):
        classes = [node.body for node in module.tree.body if isinstance(node, ast.ClassDef)]
        for node in itertools.chain(module.tree.body, *classes):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = " ".join(ast.unparse(each) for each in node.decorator_list)
                if not re.search(r"mark\.(proof|skip)\b", marks):
                    yield module.path, node.name, ast.get_docstring(node) or ""


@pytest.fixture(scope="module")
def proofs() -> dict[str, list[str]]:
    """Scenario -> the tests whose docstring has its id."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, name, docstring in stated():
        for scenario in set(_ID.findall(docstring)):
            found[scenario].append(f"{path}::{name}")
    return found


def test_every_scenario_has_a_test(proofs: dict[str, list[str]]) -> None:
    """And none is listed twice."""
    assert len(SCENARIOS) == len(set(SCENARIOS)) == 62
    assert [scenario for scenario in SCENARIOS if not proofs.get(scenario)] == []


def test_no_test_claims_a_scenario_that_is_none(proofs: dict[str, list[str]]) -> None:
    """An id with a typing error would prove nothing."""
    assert {each: tests for each, tests in proofs.items() if each not in SCENARIOS} == {}


def test_a_test_that_is_named_after_a_scenario_says_so() -> None:
    """Whoever looks for an id finds all of its tests in their docstrings."""
    silent = [
        f"{path}::{name}"
        for path, name, docstring in stated()
        if (named := _NAMED.match(name)) and f"s{named[1].upper()}{named[2]}" not in _ID.findall(docstring)
    ]
    assert silent == []
