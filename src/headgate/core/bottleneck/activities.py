"""What the loops of workers spend their time on, by their samples of stacks.

A stack is text: the label of the operator that is called, then what is called in it, from the outermost
function to the innermost, with semicolons between. What Headgate itself does is an area in parentheses, as
`areas` names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headgate.core.bottleneck.areas import FRAMEWORK, IDLE, INCLUSIVE

MAIN_PART: Final = 0.6
"""An inner function is named in place of its caller if it takes so much of the caller's time."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a loop does in an operator: `what` is an area, or "" for functions of the program."""

    label: str  # of the operator; "" if the loop works for none
    what: str


def activity_of(stack: str) -> Activity:
    """Return what a loop with this stack does.

    Example:
        >>> activity_of("operator 'Sum' (uid 'sum');Sum.process (job.py:7)")
        Activity(label="operator 'Sum' (uid 'sum')", what='')
        >>> activity_of("operator 'Sum' (uid 'sum');Sum.process (job.py:7);(state in RocksDB)").what
        '(state in RocksDB)'
        >>> activity_of("(serialization)")
        Activity(label='', what='(serialization)')
    """
    label, *calls = stack.split(";")
    if not calls:
        return Activity("", label)
    whole = next((call for call in reversed(calls) if call in INCLUSIVE), None)
    if whole is not None:
        return Activity(label, whole)
    areas = [call for call in calls if call.startswith("(")]
    if len(areas) < len(calls) and areas[-1:] != calls[-1:]:
        return Activity(label, "")
    # A function of the program that calls the framework, as for state in memory, spends that time itself.
    return Activity(label, "" if areas[-1] == FRAMEWORK and len(areas) < len(calls) else areas[-1])


def activities(stacks: Mapping[str, int]) -> Counter[Activity]:
    """Return how many samples each activity has; those of an idle loop are left out."""
    found: Counter[Activity] = Counter()
    for stack, times in stacks.items():
        if stack != IDLE:
            found[activity_of(stack)] += times
    return found


def added(many: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Return the samples of several workers together."""
    found: Counter[str] = Counter()
    for stacks in many:
        found.update(stacks)
    return found


def main_function(stacks: Mapping[str, int], label: str) -> str | None:
    """Return the function of the program, with file and line, that takes most of an operator's time.

    That is the innermost one that has most of the samples of the function which calls it; libraries are left
    out, whose files have their folder before them.

    Example:
        >>> label = "operator 'map' (uid 'm')"
        >>> main_function({f"{label};f (job.py:3);g (job.py:9)": 8, f"{label};f (job.py:3)": 2}, label)
        'g (job.py:9)'
        >>> main_function({f"{label};f (job.py:3);g (job.py:9)": 4, f"{label};f (job.py:3)": 6}, label)
        'f (job.py:3)'
    """
    paths: Counter[tuple[str, ...]] = Counter()
    for stack, times in stacks.items():
        operator, *calls = stack.split(";")
        if operator == label and (path := tuple(filter(_is_program, calls))):
            paths[path] += times
    found: tuple[str, ...] = ()
    while callees := _callees(paths, found):
        name, times = callees.most_common(1)[0]
        if found and times < MAIN_PART * sum(n for path, n in paths.items() if path[: len(found)] == found):
            break
        found = (*found, name)
    return found[-1] if found else None


def _callees(paths: Mapping[tuple[str, ...], int], caller: tuple[str, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path, times in paths.items():
        if path[: len(caller)] == caller and len(path) > len(caller):
            found[path[len(caller)]] += times
    return found


def _is_program(call: str) -> bool:
    return not call.startswith("(") and "/" not in call.rpartition("(")[2]
