"""Writes a replay as a test of the function: state, records and output; it needs no storage and no Spark."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from headgate.api.declared.held_names import UNDER
from headgate.api.functions import KeyedProcessFunction
from headgate.api.held_states import class_in_program
from headgate.common.errors import UsageError
from headgate.common.files.durable_file import replace
from headgate.common.time import WATERMARK_MAX
from headgate.graph.logical import KeyedProcessNode
from headgate.offline.replay.cutting import Cut
from headgate.offline.replay.replay_report import Step
from headgate.state.snapshots import OperatorSubtaskState


class Fed(NamedTuple):
    """A record that the function got: with its event time and the event time reached before it, in ms."""

    record: Any
    timestamp: int | None
    watermark: int | None


class Played(NamedTuple):
    """What a test needs: the state of the key at first, its records, where event time ended, the output."""

    began: OperatorSubtaskState
    fed: Sequence[Fed]
    ended_ms: int | None
    output: Sequence[Any]


KIT: Final = "headgate.testing"
"""The module whose harness a saved test uses."""

_TEST: Final = '''"""Key {key} of operator {uid!r}, as headgate replay found it: state, records and output."""

from __future__ import annotations

import base64
import sys

{path}from {kit} import OperatorHarness
{imports}

STATE = base64.b64decode(
{state}
)
"""The state of the key, its timers and its event time, as a checkpoint stores them."""

RECORDS = [
{records}
]
"""Records, each with its event time and the watermark before it, in ms."""

OUTPUT = [
{output}
]


def test_key_is_replayed() -> None:
    """The function does again what it did."""
    harness = OperatorHarness.restore({function}(), STATE, key=lambda _: {key}, max_parallelism={groups})
    for record, timestamp, watermark in RECORDS:
        if watermark is not None:
            harness.advance_watermark(watermark)
        harness.process(record, timestamp)
{end}    assert harness.take() == OUTPUT
'''


def save_test(file: str, program: str, cut: Cut, played: Played) -> None:
    """Write a test of the function of `cut` into `file`, which imports what it needs from `program`.

    Raises:
        UsageError: the function, or a record, cannot be written down so that it is the same in the test.
    """
    function = cut.node.function
    values = [*(fed.record for fed in played.fed), *played.output]
    kind = class_in_program(function)
    classes = {kind, *(type(value) for value in values if type(value).__module__ != "builtins")}
    _check_values(values, classes)
    names = {cls: Path(program).stem if cls.__module__ == "__main__" else cls.__module__ for cls in classes}
    if Path(program).stem in names.values():
        _check_importable(program)
    ended = played.ended_ms
    state = base64.b64encode(msgspec.msgpack.encode(played.began)).decode()
    text = _TEST.format(
        key=repr(cut.key),
        uid=cut.node.uid,
        path=f"sys.path.insert(0, {str(Path(program).resolve().parent)!r})\n",
        imports="\n".join(sorted(f"from {name} import {cls.__qualname__}" for cls, name in names.items())),
        state="\n".join(f'    "{part}"' for part in textwrap.wrap(state, 100)),
        records=_listed(tuple(fed) for fed in played.fed),
        output=_listed(played.output),
        function=kind.__qualname__,
        kit=KIT,
        groups=cut.plan.max_parallelism,
        end="" if ended is None else f"    harness.advance_watermark({min(ended, WATERMARK_MAX)})\n",
    )
    replace(Path(file), [text.encode()], durable=False)


def _listed(values: Iterable[Any]) -> str:
    return "\n".join(f"    {value!r}," for value in values)


def check_savable(cut: Cut) -> None:
    """Raise UsageError for an operator whose function no test can run alone: one of a window or a table."""
    function = cut.node.function
    if not isinstance(function, KeyedProcessFunction) or type(cut.node) is not KeyedProcessNode:
        raise UsageError(
            f"--save writes a test of a KeyedProcessFunction, and operator {cut.node.name!r} (uid "
            f"{cut.node.uid!r}) is another one; its replay is kept by --json"
        )
    _check_function(function)


def check_free(cut: Cut, began: Mapping[str, str], steps: Iterable[Step]) -> None:
    """Raise UsageError if records of the key are held: in the state that the replay `began` with, or after a
    step of it.
    """
    if UNDER in began or any(change.state == UNDER for step in steps for change in step.changes):
        raise UsageError(
            f"--save cannot write a test of key {cut.key!r} of operator {cut.node.name!r} (uid "
            f"{cut.node.uid!r}), of which records are held since its function failed; save a test of another "
            "key, or of records before that, with --from and --count"
        )


def _check_function(function: Any) -> None:
    kind = class_in_program(function)
    if kind.__module__.partition(".")[0] == "headgate" or "<locals>" in kind.__qualname__:
        raise UsageError(
            f"--save cannot write a test of {kind.__qualname__}, which no test can import; give --save for a "
            "function that is a class of a module"
        )
    try:
        same = vars(kind()) == vars(function)
    except TypeError:
        same = False
    if not same:
        raise UsageError(
            f"--save cannot write a test of {kind.__qualname__}, which is made with arguments; write the "
            f"test with {KIT}.OperatorHarness, from the output of --json"
        )


def _check_values(values: Iterable[Any], classes: Iterable[type]) -> None:
    names = {cls.__qualname__: cls for cls in classes}
    for value in values:
        try:
            same = eval(repr(value), dict(names)) == value  # noqa: S307 - of a value of the user's program
        except Exception:
            same = False
        if not same:
            raise UsageError(
                f"--save cannot write down a value of type {type(value).__name__}: what Python writes for "
                f"it, {value!r:.80}, is not the same value again"
            )


def _check_importable(program: str) -> None:
    text = Path(program).read_text(encoding="utf-8")
    if "__name__" not in text and "def build(" not in text:
        raise UsageError(
            f"--save writes a test that imports {program}, which would run its job; put the call of "
            'execute() under `if __name__ == "__main__":`'
        )
