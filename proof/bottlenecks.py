"""What holds a job up, planted and asked for: python -m proof why [--each N] [--seed N] [--kind KIND].

Jobs in real worker processes are held up by one cause each, at random places and strengths; others are not
held up. `headgate why` has to name kind and place, or to say that nothing is. Seeds below 1000 are for
building and tuning the rules; the proof is of those from 1000 on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import headgate as hg
from headgate.api.jobs.remote_job import connect
from headgate.testing import ProcessCluster
from proof.bottleneck_cases import HEALTHY, MAKERS, Case, case_of
from proof.record import write_json

FIRST_SEED: Final = 1_000
"""Lower ones are for tuning."""

EACH: Final = 5
HEALTHY_CASES: Final = 10
WANTED: Final = 0.9
WANTED_OF_KIND: Final = 0.6

SETTLES_S: Final = 5.0
WATCHES_S: Final = 3
BEGINS_S: Final = 60.0


@dataclass
class Outcome:
    """What was said of a case.

    Attributes:
        case: which.
        answer: of `GET /v1/why`; {} where there was none.
        took_s: from begin to end.
        error: why there was none.
    """

    case: Case
    answer: dict[str, Any]
    took_s: float
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether kind and place are as planted."""
        return bool(self.answer) and self.case.right(self.answer)

    def facts(self) -> dict[str, Any]:
        """For the record."""
        return {
            "kind": str(self.case.kind),
            "seed": self.case.seed,
            "planted": self.case.strength,
            "right": self.right,
            "said": self.answer.get("kind", ""),
            "text": self.answer.get("text", self.error),
            "took_s": round(self.took_s, 1),
        }


def carry_out(case: Case, scratch: Path, settles_s: float = SETTLES_S) -> Outcome:
    """Run a case's job in processes, ask what holds it up, and end it."""
    began = time.monotonic()
    cluster = ProcessCluster()
    shape = case.shape
    shape.config |= {
        "rest.enabled": True,
        "heartbeat.interval": "500ms",
        "headgate.progress": "off",
        "restart-strategy.type": "none",
    }
    with shape.build(cluster, scratch).execute_async(case.name) as handle:
        try:
            _wait_until_running(handle)
            with paused(cluster, case):
                time.sleep(settles_s)
                answer: dict[str, Any] = dict(connect(case.name).why(WATCHES_S))
        except hg.HeadgateError as error:
            return Outcome(case, {}, time.monotonic() - began, str(error))
        finally:
            handle.cancel()
    return Outcome(case, answer, time.monotonic() - began)


def _wait_until_running(handle: hg.JobHandle) -> None:
    until = time.monotonic() + BEGINS_S
    while (state := handle.status().state) != "running":
        if handle.done or time.monotonic() > until:
            raise hg.OperatingError(f"the job does not run, it is {state}: {handle.status().last_failure}")
        time.sleep(0.05)


@contextmanager
def paused(cluster: ProcessCluster, case: Case) -> Iterator[None]:
    """Stop a worker again and again until the block ends, if the case says so."""
    if case.pauses is None:
        yield
        return
    slot, runs_s, stands_s = case.pauses
    ended = threading.Event()

    def strike() -> None:
        while not ended.is_set():
            cluster.kill(slot, signal.SIGSTOP)
            time.sleep(stands_s)
            cluster.kill(slot, signal.SIGCONT)
            time.sleep(runs_s)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def outcomes(cases: Sequence[Case]) -> Iterator[Outcome]:
    """Carry them out, one after the other, in a folder of their own."""
    scratch = Path(tempfile.mkdtemp(prefix="headgate-why-"))
    before = os.environ.get("HEADGATE_HOME")
    os.environ["HEADGATE_HOME"] = str(scratch / "home")
    try:
        for case in cases:
            yield carry_out(case, scratch / case.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if before is None:
            del os.environ["HEADGATE_HOME"]
        else:
            os.environ["HEADGATE_HOME"] = before


def planned(each: int, seed: int, kinds: Sequence[str]) -> list[Case]:
    """So many cases of each kind; twice as many healthy ones."""
    return [
        case_of(kind, number)
        for kind in kinds
        for number in range(seed, seed + each * (HEALTHY_CASES // EACH if kind == HEALTHY else 1))
    ]


def summary(found: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by kind, and whether they are enough."""
    kinds = list(dict.fromkeys(str(each.case.kind) for each in found))
    right = {
        kind: sum(each.right for each in found if each.case.kind == kind)
        / sum(each.case.kind == kind for each in found)
        for kind in kinds
    }
    share = sum(each.right for each in found) / len(found)
    return {
        "cases": len(found),
        "right": sum(each.right for each in found),
        "right_of_kind": {kind: round(value, 2) for kind, value in right.items()},
        "enough": share >= WANTED and min(right.values()) >= WANTED_OF_KIND,
        "outcomes": [each.facts() for each in found],
    }


def main(arguments: Sequence[str]) -> int:
    """Carry out the cases; 0 when enough of them were named rightly."""
    parser = argparse.ArgumentParser(
        prog="python -m proof why", description="Planted causes, and their names."
    )
    parser.add_argument("--each", type=int, default=EACH, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the first case of each kind")
    parser.add_argument("--kind", action="append", choices=[str(kind) for kind in MAKERS], help="only these")
    parser.add_argument("--smoke", action="store_true", help="one case of each kind, two healthy ones")
    parser.add_argument("--results", type=Path, help="file for what was found")
    options = parser.parse_args(arguments)
    cases = planned(1 if options.smoke else options.each, options.seed, options.kind or list(MAKERS))
    found = []
    for outcome in outcomes(cases):
        found.append(outcome)
        facts = outcome.facts()
        print(
            f"{'right' if outcome.right else 'WRONG'}  {outcome.case.name} ({facts['planted']}): "
            f"{facts['said']}, {facts['took_s']} s\n       {facts['text']}",
            flush=True,
        )
    counts = summary(found)
    print(json.dumps({key: counts[key] for key in counts if key != "outcomes"}, indent=2))
    if options.results is not None:
        write_json(counts, options.results)
    return 0 if counts["enough"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
