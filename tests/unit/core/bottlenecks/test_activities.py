"""Samples of stacks: what they say of a loop, and which function of the program takes its time."""

from __future__ import annotations

import pytest
from planted_evidence import COUNT

from headgate.core.bottleneck.activities import Activity, activities, activity_of, added, main_function
from headgate.core.bottleneck.areas import CHECKPOINT, FRAMEWORK, IDLE, ROCKSDB, SENDING, SERIALIZATION

PROCESS = "Count.process (job.py:7)"


@pytest.mark.parametrize(
    ("calls", "what"),
    [
        ([PROCESS], ""),
        ([PROCESS, FRAMEWORK], ""),  # state in memory, called by the function
        ([PROCESS, ROCKSDB], ROCKSDB),
        ([PROCESS, ROCKSDB, "encode (job.py:90)"], ROCKSDB),  # a serializer of the program's own
        ([SERIALIZATION, "encode (job.py:90)"], SERIALIZATION),
        ([PROCESS, SENDING], SENDING),
        ([SENDING, "partition (job.py:20)"], ""),  # a function of the program that the framework calls
        ([CHECKPOINT], CHECKPOINT),
        ([FRAMEWORK], FRAMEWORK),
    ],
)
def test_what_a_loop_does_within_an_operator(calls: list[str], what: str) -> None:
    """The program's code, or an area of the framework."""
    assert activity_of(";".join([COUNT.label, *calls])) == Activity(COUNT.label, what)


def test_idle_loops_do_nothing() -> None:
    """Others are counted by what they do, whatever the function's name is."""
    stacks = {IDLE: 50, f"{COUNT.label};{PROCESS}": 3, f"{COUNT.label};other (job.py:1)": 4, SENDING: 2}
    assert activities(stacks) == {Activity(COUNT.label, ""): 7, Activity("", SENDING): 2}
    assert activities({}) == {}


def test_samples_of_workers_are_added() -> None:
    """Those of one stack together."""
    assert added([{"a": 1, "b": 2}, {}, {"a": 3}]) == {"a": 4, "b": 2}


def test_libraries_are_no_main_functions() -> None:
    """The line is the program's own that calls them, as that is what its author can change."""
    library = "loads (json/__init__.py:299)"
    stacks = {f"{COUNT.label};{PROCESS};{library}": 9, f"{COUNT.label};{PROCESS}": 1}
    assert main_function(stacks, COUNT.label) == PROCESS
    assert main_function({f"{COUNT.label};{library}": 9}, COUNT.label) is None


def test_the_caller_of_several_functions_is_the_main_one() -> None:
    """None of them takes most of its time."""
    stacks = {f"{COUNT.label};{PROCESS};{name} (job.py:{number})": 5 for number, name in enumerate("abc")}
    assert main_function(stacks, COUNT.label) == PROCESS


def test_functions_of_other_operators_do_not_count() -> None:
    """However much time they take."""
    stacks = {f"{COUNT.label};{PROCESS}": 1, "operator 'x' (uid 'x');f (job.py:1)": 50}
    assert main_function(stacks, COUNT.label) == PROCESS
    assert main_function(stacks, "operator 'y' (uid 'y')") is None
