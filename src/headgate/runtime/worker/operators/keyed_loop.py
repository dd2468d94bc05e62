"""Generates the inner loop of keyed processing, with only the steps that one function needs.

Per record it sets the key, loads value states of immutable values into their handles, calls the user's
function, and stores changed values. Timestamps, watermarks, row views and origins of outputs are left out
where they are not needed. Columnar input is read through one row view that moves along the batch. If the
user's function keeps the view, its reference count shows that, and the next record gets a new one.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class LoopShape:
    """The features that a generated loop needs; loops of one shape share their code.
    `eager` states (a number) are loaded and stored per record, `bound` ones only set to the record's key.
    """

    eager: int  # how many value states are loaded before and stored after each record
    bound: int  # how many other states only have to be set to the key
    columnar: bool  # whether records are views of columns
    # whether records have event time; timestamp and watermark are then exact for each record, outputs have
    # their origin, and timers may interrupt
    timed: bool
    keeps_changes: bool = False  # whether handles of value states also record new values for a changelog
    guarded: bool = False  # whether a record may fail: `at` then has its first output's place, and a journal


def loop_source(shape: LoopShape) -> str:
    """Return the Python source of the loop, a function that calls the user's function for each record.
    It takes records `start` to before `stop`; it returns the index after the last one that it has processed.
    """
    lines = [
        "def loop(start, stop, keys, rows, times, marks, ctx, timers, queue, process, out,",
        "         origins, eager, bound, new_row, getrefcount, checked, at):",
        "    extend = out.extend",
    ]
    for n in range(shape.eager):
        lines += [f"    h{n} = eager[{n}]; t{n} = h{n}.table; g{n} = t{n}.get; d{n} = h{n}.default"]
        if shape.keeps_changes:
            lines += [f"    c{n} = h{n}.changed"]
    for n in range(shape.bound):
        lines += [f"    b{n} = bound[{n}].bind"]
    if shape.columnar:
        lines += ["    row = new_row(); row._c = rows", "    lone = getrefcount(row)"]
    if shape.guarded:
        lines += ["    notes, begin = at[2].notes, at[2].begin"]
    lines += ["    known = None", "    i = start - 1", "    try:", "        for i in range(start, stop):"]
    body = ["if notes: begin()", "at[1] = len(out)"] if shape.guarded else []
    body += ["row._i = i" if shape.columnar else "row = rows[i]", "key = ctx.key = keys[i]"]
    if shape.timed:
        body += ["ctx.timestamp = times[i]", "timers.current_watermark = marks[i]"]
    body += [f"b{n}(key)" for n in range(shape.bound)]
    body += [f"v{n} = h{n}.value = g{n}(key, d{n})" for n in range(shape.eager)]
    body += [
        "result = process(row, ctx)",
        "if result is not None:",
        "    if result.__class__ is not known:",
        "        known = checked(result)",
        "    extend(result)",
    ]
    for n in range(shape.eager):
        body += [
            f"w{n} = h{n}.value",
            f"if w{n} is not v{n}:",
            *([f"    c{n}[key] = w{n}"] if shape.keeps_changes else []),
            f"    if w{n} is d{n}: t{n}.pop(key, None)",
            f"    else: t{n}[key] = w{n}",
        ]
    if shape.timed:
        body += ["fresh = len(out) - len(origins)", "if fresh: origins.extend([i] * fresh)"]
    if shape.columnar:
        body += ["result = None", "if getrefcount(row) != lone:", "    row = new_row(); row._c = rows"]
    if shape.timed:
        body.append("if queue.interrupt: return i + 1")
    lines += [f"            {line}" for line in body]
    lines += ["    except BaseException:", "        at[0] = i", "        raise", "    return stop"]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=256)
def compile_keyed_loop(shape: LoopShape) -> Callable[..., int]:
    """Return the function compiled from :func:`loop_source` for `shape`, from a cache if there is one."""
    text = loop_source(shape)
    name = f"<headgate keyed loop {shape}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Callable[..., int]] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["loop"]
