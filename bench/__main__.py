"""`python -m bench [SECTION ...]`: measures, prints tables, and writes a record in JSON.

The exit code is 1 when a job failed or gave a wrong answer. A number below what is wanted is no failure:
it depends on the machine and on who else uses it. `python -m bench pair OLD NEW` compares two checkouts,
`python -m bench peers` Headgate with other engines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import machine, pair, report
from bench.plan import SECTIONS, Plan, chosen
from bench.sections import (
    barriers,
    checkpoint_cost,
    headgate_jobs,
    isolation,
    j2,
    marks,
    savepoints,
    spark_bootstrap,
    spark_border,
    spark_state,
    spark_stateful,
    state,
    user_code,
    windows,
)

_PAGE_CELLS = 130
SPARK = "spark"

MEASURES: dict[str, Callable[[Plan, Callable[[str], None]], dict[str, Any]]] = {
    "j2": j2.measure,
    "checkpoint-cost": checkpoint_cost.measure,
    "barriers": barriers.measure,
    "memory": headgate_jobs.memory,
    "backpressure": headgate_jobs.backpressure,
    "latency": headgate_jobs.latency,
    "window-latency": windows.latency,
    "open-sessions": windows.open_sessions,
    "marks-latency": marks.latency,
    "marks-cost": marks.cost,
    "open-rows": marks.open_rows,
    "state": state.measure,
    "state-large": state.large,
    "savepoints": savepoints.measure,
    "spark-j2": spark_stateful.measure,
    "spark-border": spark_border.measure,
    "spark-state": spark_state.measure,
    "spark-bootstrap": spark_bootstrap.measure,
    "user-code": user_code.measure,
    "isolation": isolation.measure,
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"of {', '.join(SECTIONS)}; {SPARK} stands for those at the border to Spark; default: all",
    )
    parser.add_argument("--smoke", action="store_true", help="about two minutes; numbers mean little")
    parser.add_argument("--rounds", type=_positive, help="of J2 over all engines, and with Spark as source")
    parser.add_argument("--events", type=_positive, help="bids of J2 and of the checkpoint cost")
    parser.add_argument("--no-peers", action="store_true", help="leave the other engines out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the record goes")
    parsed = parser.parse_args()
    if SPARK in parsed.sections:
        parsed.sections += [name for name in SECTIONS if name.startswith(f"{SPARK}-")]
        parsed.sections.remove(SPARK)
    unknown = [name for name in parsed.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return parsed


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _console() -> Console:
    """The terminal, or a wide page where the output goes into a file."""
    console = Console()
    return console if console.is_terminal else Console(width=_PAGE_CELLS)


def main() -> int:
    """Measure and report."""
    if sys.argv[1:2] == ["pair"]:
        return pair.main(sys.argv[2:])
    if sys.argv[1:2] == ["peers"]:
        from bench.compare import command  # needs DuckDB, which the other sections do not

        return command.main(sys.argv[2:])
    asked, console = arguments(), _console()
    plan = chosen(asked.smoke, asked.rounds, asked.events, not asked.no_peers)
    began = time.monotonic()
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "smoke": plan.smoke,
        "machine": machine.facts(),
        "sections": {},
    }
    path = asked.json or machine.ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    for name in [name for name in SECTIONS if name in asked.sections or not asked.sections]:
        record["sections"][name] = _measure(name, plan, console, began)
        # Written after every section: what was measured stays, whatever happens later.
        report.write_record(record, path)
    report.show(record, console)
    console.print(f"record: {path}", highlight=False, soft_wrap=True)
    return 1 if any(section["failed"] for section in record["sections"].values()) else 0


def _measure(name: str, plan: Plan, console: Console, began: float) -> dict[str, Any]:
    with console.status(name) as status:

        def say(text: str) -> None:
            line = f"{time.monotonic() - began:6.0f} s  {name}: {text}"
            if console.is_terminal:
                status.update(line)
            else:
                print(line, file=sys.stderr, flush=True)

        return MEASURES[name](plan, say)


if __name__ == "__main__":
    sys.exit(main())
