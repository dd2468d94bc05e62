"""Exactly once, proved with real processes: python -m proof [--smoke] [--seed N] [--only abcdefghi].

Then everything that decodes stored bytes is fuzzed, alone with python -m proof fuzz, and the simulator goes
on with its seeds, alone with python -m proof simulation. Upgrades are judged and restored by python -m proof
upgrades, and Nexmark's queries run while their workers are killed by python -m proof nexmark. A job that many
pages watch is python -m proof soak, and python -m proof why plants what holds jobs up, and asks for it. All
of it in sections, each with a record of its own, is python -m proof sections.

Jobs run on local Spark (files, event time, shuffle by key, state and timers, exactly-once files)
while workers and drivers are killed and stopped, code raises, and disks refuse, with checkpoints
aligned, unaligned, and aligned with a timeout. Others run with Spark at both ends (from Structured
Streaming to Parquet), where executors of a standalone cluster are killed, too. After each run the output
must be the batch answer, and nothing may be left over. Exit code 1 on any violation.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from proof import bottlenecks, checks, fuzz, nexmark, page_soak, plans, sections, simulation, upgrades
from proof.border import Border, BorderRun
from proof.drivers import Chain, ChainRun
from proof.job import Answer, Place, write_input
from proof.record import FOLDER, FaultResult, RunResult, record_of, summary, write_json, write_record
from proof.relays import Relay, RelayRun
from proof.runs import Run
from proof.strikes import FOLDER_VARIABLE, Strikes
from proof.surroundings import prepare

CONSOLE = Console(highlight=False)

AnyRun = Run | ChainRun | RelayRun | BorderRun


class Proof:
    """All runs of one proof.

    Args:
        root: folder for everything.
        runs: what to do.
        seed: decides everything that chance decides.
        smoke: which form it is.
        record: folder for the record; None writes none.
        details: file that gets the same; None: none does.
    """

    def __init__(
        self,
        root: Path,
        runs: Sequence[plans.AnyPlan],
        seed: int,
        smoke: bool,
        record: Path | None,
        details: Path | None = None,
    ) -> None:
        self._root, self._plans, self._seed, self._smoke, self._record = root, runs, seed, smoke, record
        self._details = details
        self._began = time.monotonic()
        self._temporary = root / "tmp"
        self.results: list[RunResult] = []
        self.fuzzing: dict[str, Any] | None = None
        self.simulation: dict[str, Any] | None = None

    def carry_out(self) -> None:
        """One run after the other, with a display."""
        self._prepare()
        strikes = Strikes(self._root / "strikes")
        answer = write_input(self._root / "data", self._seed)
        total = sum(len(plan.fault_names) for plan in self._plans)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("faults"),
            TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=CONSOLE) as progress:
            task = progress.add_task("proof", total=total)
            for plan in self._plans:
                progress.update(
                    task, description=f"{plan.name}, {plan.mode.name}, parallelism {plan.parallelism}"
                )
                self._one(plan, strikes, answer, progress, task)
            for missed in plans.repeat(self._plans, self.results, self._seed):
                total += len(missed.faults)
                progress.update(task, description=missed.name, total=total)
                self._one(missed, strikes, answer, progress, task)
        if short := plans.shortfall(self._plans, self.results):
            self.results.append(RunResult("the plan", self._seed, [], 0, "", violations=short))

    def _prepare(self) -> None:
        """Settings that Spark and all processes below this one inherit."""
        os.environ[FOLDER_VARIABLE] = str(self._root / "strikes")
        prepare(self._root)

    def _one(
        self, plan: plans.AnyPlan, strikes: Strikes, answer: Answer, progress: Progress, task: TaskID
    ) -> None:
        def told(fault: FaultResult) -> None:
            progress.advance(task)
            progress.console.print(_fault_line(fault))

        place = Place(self._root / plan.name.replace(" ", "-"), self._root / "data")
        place.root.mkdir()
        run: AnyRun
        if isinstance(plan, Chain):
            run = ChainRun(plan, place, strikes, answer, told)
        elif isinstance(plan, Relay):
            run = RelayRun(plan, place, strikes, answer, told)
        elif isinstance(plan, Border):
            run = BorderRun(plan, place, strikes, answer, told)
        else:
            run = Run(plan, place, strikes, answer, self._temporary, told)
        watchdog = threading.Timer(plan.time_limit_s, self._hangs, (run,))
        watchdog.daemon = True
        watchdog.start()
        result = run.carry_out()
        watchdog.cancel()
        self.results.append(result)
        progress.console.print(_run_line(result))

    def _hangs(self, run: AnyRun) -> None:
        """The run does not end: say where everything stands, write the record, end everything."""
        faulthandler.dump_traceback(all_threads=True)
        run.result.violations.append(f"{run.plan.name} hangs: not over after {run.plan.time_limit_s:.0f} s")
        run.result.story = run.watcher.story()
        self.results.append(run.result)
        self.finish()
        for pid in checks.descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(1)

    def end_spark(self) -> None:
        """Stop Spark as the end of the process does; then no process and no file may be left."""
        from headgate.deploy.spark import session

        family = checks.descendants()
        session._end()
        left = [*checks.check_gone(family, 10.0), *(checks.check_temporary(self._temporary))]
        if left:
            self.results.append(RunResult("the end of Spark", self._seed, [], 0, "", violations=left))

    def fuzz(self, minutes: float) -> None:
        """Fuzz what decodes stored bytes."""
        processes = fuzz.smoke() if self._smoke else fuzz.whole(minutes)
        self.fuzzing = fuzz.carry_out(processes, self._seed, CONSOLE)

    def simulate(self, minutes: float) -> None:
        """Go on with the simulator's seeds."""
        self.simulation = simulation.carry_out(self._smoke, minutes, CONSOLE)

    def finish(self) -> bool:
        """Show the table and the stories, write the record; True when all held."""
        took_s = time.monotonic() - self._began
        broken = [run for run in self.results if run.wrong]
        for run in broken:
            CONSOLE.rule(f"{run.name} (seed {run.seed}, parallelism {run.parallelism})")
            CONSOLE.print("\n".join([*run.story, *(f"VIOLATION {text}" for text in run.wrong)]), markup=False)
        CONSOLE.print(_table(self.results))
        CONSOLE.print(_modes(self.results))
        CONSOLE.print(f"{took_s:.0f} s")
        content = record_of(self.results, self._seed, self._smoke, took_s, self.fuzzing, self.simulation)
        if self._record is not None:
            CONSOLE.print(f"record in {write_record(content, self._record)}", soft_wrap=True)
        if self._details is not None:
            write_json(content, self._details)
        for run in broken:  # again, and last: what reports this keeps the end of the output
            CONSOLE.print("\n".join(f"VIOLATION {run.name}: {text}" for text in run.wrong), markup=False)
        if broken:
            CONSOLE.print(f"again: python -m proof --seed {self._seed}{' --smoke' if self._smoke else ''}")
        return not broken and not any(part and part["findings"] for part in (self.fuzzing, self.simulation))


def _fault_line(fault: FaultResult) -> str:
    if not fault.struck:
        return f"    {fault.fault}: the job ended first"
    recovery = "" if fault.recovery_s is None else f"{fault.recovery_s:6.2f} s"
    bad = "".join(f" [red]{text}[/red]" for text in fault.violations)
    return f"  {recovery:>8}  {fault.fault}{bad}"


def _run_line(run: RunResult) -> str:
    verdict = "exactly once" if not run.wrong else f"[red]{len(run.wrong)} violations[/red]"
    return (
        f"{run.name}, {run.mode}: {run.lines:,} lines, {run.restarts} restarts, "
        f"{run.checkpoints} checkpoints, "
        f"{run.restored.with_records} of {run.restored.recoveries} recoveries with records in flight "
        f"({run.restored.records:,}), {run.duration_s:.1f} s: {verdict}"
    )


def _table(results: Sequence[RunResult]) -> Table:
    facts = summary(results)
    table = Table(title="Faults and recovery times")
    table.add_column("fault")
    for column in ("count", "median s", "p99 s"):
        table.add_column(column, justify="right")
    for name, row in facts["per_fault"].items():
        table.add_row(name, str(row["count"]), str(row.get("median_s", "")), str(row.get("p99_s", "")))
    table.add_section()
    table.add_row("all", str(facts["faults"]))
    for name, row in facts["recovery"].items():
        table.add_row(f"recovery of {name}", "", str(row.get("median_s", "")), str(row.get("p99_s", "")))
    table.add_row("violations", str(facts["violations"]))
    return table


def _modes(results: Sequence[RunResult]) -> Table:
    table = Table(title="Checkpoints and records in flight")
    table.add_column("checkpoints")
    for column in ("runs", "faults", "recoveries", "with records in flight", "records"):
        table.add_column(column, justify="right")
    for name, row in summary(results)["modes"].items():
        table.add_row(name, *(f"{count:,}" for count in row.values()))
    return table


def main(arguments: Sequence[str]) -> int:
    """Carry out the proof; 0 when everything held."""
    if arguments[:1] == ["fuzz"]:
        return fuzz.main(arguments[1:])
    if arguments[:1] == ["soak"]:
        return page_soak.main(arguments[1:])
    if arguments[:1] == ["upgrades"]:
        return upgrades.main(arguments[1:])
    if arguments[:1] == ["why"]:
        return bottlenecks.main(arguments[1:])
    if arguments[:1] == ["nexmark"]:
        return nexmark.main(arguments[1:])
    if arguments[:1] == ["simulation"]:
        return simulation.main(arguments[1:])
    if arguments[:1] == ["sections"]:
        return sections.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="each fault once, in a few minutes")
    parser.add_argument("--seed", type=int, help="of an earlier proof; by default a new one")
    parser.add_argument("--only", help="groups of faults, such as ab")
    parser.add_argument("--run", action="append", help='carry out only this run of the seed, such as "run 3"')
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run with violations")
    parser.add_argument("--minutes", type=float, default=fuzz.MINUTES, help="of fuzzing, in a whole proof")
    parser.add_argument(
        "--simulation-minutes", type=float, default=simulation.MINUTES, help="of new seeds, in a whole proof"
    )
    parser.add_argument("--record", type=Path, help="folder for the record; a partial proof leaves none")
    parser.add_argument("--results", type=Path, help="file for the same content, of any form")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    runs = (plans.smoke if options.smoke else plans.full)(seed, options.only)
    if options.run:
        runs = [plan for plan in runs if plan.name in options.run]
    root = Path(tempfile.mkdtemp(prefix="proof-")).resolve()
    CONSOLE.print(f"seed {seed}, {len(runs)} runs")
    part = bool(options.only or options.run)
    whole = not (options.smoke or part)
    folder = options.record or (FOLDER if whole else None)
    proof = Proof(root, runs, seed, options.smoke, folder, options.results)
    try:
        proof.carry_out()
        proof.end_spark()
        if not part:
            proof.fuzz(options.minutes)
            proof.simulate(options.simulation_minutes)
        held = proof.finish()
    finally:
        if options.keep:
            CONSOLE.print(f"kept {root}", soft_wrap=True)
        else:
            shutil.rmtree(root, ignore_errors=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
