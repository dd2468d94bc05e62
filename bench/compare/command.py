"""`python -m bench peers`: measures, prints a table, and writes a chart and a record in JSON.

The exit code is 1 when a system failed or gave a wrong answer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench import machine, report
from bench.compare import chart, table
from bench.compare.cells import (
    FAILED,
    SLOW_PER_S,
    SLOWEST_PER_S,
    START_LIMIT_S,
    WRONG,
    Answers,
    Cell,
    Measurement,
    Plan,
)
from bench.compare.entries import Query
from bench.compare.events import event_set
from bench.compare.queries import QUERIES
from bench.compare.systems import HEADGATE, HEADGATE_JSON, SYSTEMS, System
from bench.peers.environments import AbsentError

EVENTS: Final = 5_000_000
SMOKE_EVENTS: Final = 200_000
SMOKE_QUERIES: Final = ("q2", "q12", "J2")
_PAGE_CELLS: Final = 170


def parsed(words: list[str] | None) -> argparse.Namespace:
    """The command line, with queries and systems in the order of the table."""
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    parser.add_argument("--queries", metavar="NAME,...", help=f"of {','.join(QUERIES)}; default: all")
    parser.add_argument("--systems", metavar="NAME,...", help=f"of {','.join(SYSTEMS)}; default: all")
    parser.add_argument("--events", type=int, help=f"of the generator, bids and others; default {EVENTS:,}")
    parser.add_argument("--rounds", type=int, default=1, help="measured runs of each cell; default 1")
    parser.add_argument(
        "--start-limit",
        type=float,
        default=START_LIMIT_S,
        metavar="SECONDS",
        help=f"that a run has besides those for its events; default {START_LIMIT_S:g}",
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="where the table goes as text, too")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="where the chart goes, beside it as PNG")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the record goes")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the queries that the record of --json has of the same systems and events",
    )
    parser.add_argument("--smoke", action="store_true", help="few events, few queries; installs nothing")
    asked = parser.parse_args(words)
    for name in ("events", "rounds"):
        if getattr(asked, name) is not None and getattr(asked, name) < 1:
            parser.error(f"--{name} {getattr(asked, name)} is not 1 or more")
    default = SMOKE_QUERIES if asked.smoke else tuple(QUERIES)
    asked.queries = _chosen(parser, "query", asked.queries, QUERIES, default)
    asked.systems = with_base(_chosen(parser, "system", asked.systems, SYSTEMS, tuple(SYSTEMS)))
    asked.events = asked.events or (SMOKE_EVENTS if asked.smoke else EVENTS)
    return asked


def _chosen(
    parser: argparse.ArgumentParser, what: str, text: str | None, known: Iterable[str], default: Iterable[str]
) -> list[str]:
    wanted = list(default) if text is None else text.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return [name for name in known if name in wanted]


def with_base(systems: list[str]) -> list[str]:
    """Add Headgate's run on JSON where Headgate is to be compared with an engine that reads JSON.

    Example:
        >>> with_base(["headgate", "bytewax"]), with_base(["headgate", "flink"])
        (['headgate', 'headgate-json', 'bytewax'], ['headgate', 'flink'])
    """
    if HEADGATE.key not in systems or all(SYSTEMS[key].format != "json" for key in systems):
        return systems
    return [key for key in SYSTEMS if key in systems or key == HEADGATE_JSON.key]


def main(words: list[str] | None = None) -> int:
    """Measure and report."""
    asked = parsed(words)
    console = Console()
    console = console if console.is_terminal else Console(width=_PAGE_CELLS)
    plan = Plan(
        event_set(asked.events), asked.rounds, install=not asked.smoke, start_limit_s=asked.start_limit
    )
    path = asked.json or machine.ROOT / "bench" / "results" / f"peers-{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    record, cells = _begun(asked, plan), list[Cell]()
    if asked.resume and path.exists():
        cells = resumed(json.loads(path.read_text()), record)
    say = _teller(time.monotonic())
    for name in missing(asked.queries, cells):
        cells += measured(QUERIES[name], [SYSTEMS[key] for key in asked.systems], plan, say)
        cells.sort(key=lambda cell: list(QUERIES).index(cell.query))
        # Written after every query: what was measured stays, whatever happens later.
        record["cells"] = [_plain(cell, cells) for cell in cells]
        report.write_record(record, path)
    _show(cells, asked, plan, console)
    console.print(f"record: {path}", highlight=False, soft_wrap=True)
    return 1 if any(cell.status in (FAILED, WRONG) for cell in cells) else 0


def resumed(earlier: dict[str, Any], now: dict[str, Any]) -> list[Cell]:
    """The cells of an earlier record, of queries for which it has all the systems of this one.

    Raises:
        SystemExit: it is of other events, or of another state of the project.
    """
    for part, had, has in (
        ("the set of events", earlier["events"], now["events"]),
        ("the commit", earlier["machine"]["commit"], now["machine"]["commit"]),
    ):
        if had != has:
            raise SystemExit(f"the record cannot be resumed: {part} was {had}, and is {has} now")
    found = [Cell(**{name: cell[name] for name in Cell.__slots__}) for cell in earlier["cells"]]
    wanted = set(now["systems"])
    whole = {name for name in QUERIES if {c.system for c in found if c.query == name} >= wanted}
    return [cell for cell in found if cell.query in whole]


def missing(queries: Iterable[str], cells: Iterable[Cell]) -> list[str]:
    """The queries of which there are no cells."""
    known = {cell.query for cell in cells}
    return [name for name in queries if name not in known]


def measured(query: Query, systems: list[System], plan: Plan, say: Callable[[str], None]) -> list[Cell]:
    """The cells of one query: all systems in turn, round by round, and then their answers."""
    answers = Answers(query)
    measurements = [Measurement(query, system, plan, answers, say) for system in systems]
    for _ in range(plan.rounds):
        for each in measurements:
            each.next_round()
    for each in measurements:
        each.check()
    return [each.cell for each in measurements]


def _begun(asked: argparse.Namespace, plan: Plan) -> dict[str, Any]:
    """The record without its cells."""
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "smoke": asked.smoke,
        "machine": {**machine.facts(), "java": java_version()},
        "events": {"count": plan.events.count, **asdict(plan.events.settings)},
        "limits": {
            "prefix_events": plan.prefix,
            "slow_per_s": SLOW_PER_S,
            "slowest_per_s": SLOWEST_PER_S,
            "start_limit_s": plan.start_limit_s,
        },
        "systems": {key: SYSTEMS[key].notes for key in asked.systems},
        "cells": [],
    }


def java_version() -> str | None:
    """The first line that Java says of itself; None without Java."""
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.splitlines()[0] if said else None


def _plain(cell: Cell, cells: list[Cell]) -> dict[str, Any]:
    return {**asdict(cell), "rate": cell.rate, "headgate_is_times": table.ratio(cell, cells)}


def _teller(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    return say


def _show(cells: list[Cell], asked: argparse.Namespace, plan: Plan, console: Console) -> None:
    table.show(cells, console)
    if asked.smoke:
        console.print("The smoke form: it shows that everything works; its numbers mean little.")
    if asked.table is not None:
        asked.table.parent.mkdir(parents=True, exist_ok=True)
        with asked.table.open("w") as file:
            table.show(cells, Console(file=file, width=_PAGE_CELLS))
    if asked.svg is not None:
        try:
            chart.write(cells, asked.svg, plan.install)
        except (AbsentError, subprocess.SubprocessError) as error:
            console.print(f"no PNG of the chart: {error}", highlight=False, markup=False)
