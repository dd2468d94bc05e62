"""Many seeds: added up over processes and over runs, and what is told of one that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.campaign import PART, Tally, Wanted, campaign, mix_of, parts_of, run_part, runs_of
from sim.ledger import KEPT, NOT_RUN, Ledger, fingerprint
from sim.planted import planted

ROOT = Path(__file__).resolve().parents[2]


def sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "sim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)


def tally(seeds: int, *failed: int) -> Tally:
    """Seeds without a story, of which some failed."""
    made = Tally(seeds, failures=[(seed, "") for seed in failed])
    made.counts["faults"] = 2 * seeds
    return made


def test_parts_cover_the_spans() -> None:
    """Every seed once, in parts of a size."""
    spans = [range(3, 3 + PART + 1), range(100, 102)]
    parts = list(parts_of(spans))
    assert [seed for part in parts for seed in part] == [seed for span in spans for seed in span]
    assert max(map(len, parts)) == PART


def test_a_seed_draws_its_mix() -> None:
    """Always the same one, and all of them are drawn."""
    assert [mix_of(seed) for seed in range(40)] == [mix_of(seed) for seed in range(40)]
    assert {mix_of(seed) for seed in range(40)} == {"default", "coordinator", "storage", "messages"}


def test_a_campaign_stops_in_time() -> None:
    """What was begun is finished, and nothing new is begun."""
    assert list(campaign([range(1_000)], Wanted(), processes=1, seconds=0.0)) == []


def test_the_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    """Done seeds are not done again, counts add up, another source begins anew and the old one is kept."""
    path = tmp_path / "proof" / "ledger.json"
    ledger = Ledger(path, "one")
    assert ledger.missing(range(30)) == [range(30)]
    ledger.note(range(10, 20), tally(10))
    ledger.note(range(5), tally(5))
    again = Ledger(path, "one")
    assert (again.seeds, again.failed) == (15, [])
    assert again.missing(range(2, 30)) == [range(5, 10), range(20, 30)]
    other = Ledger(path, "two")
    assert (other.seeds, other.missing(range(7))) == (0, [range(7)])
    other.note(range(7), tally(7))
    assert Ledger(path, "one").seeds == 15


def test_the_ledger_keeps_failures(tmp_path: Path) -> None:
    """A part that ended early counts up to its failure, which stays on record."""
    ledger = Ledger(tmp_path / "ledger.json", "one")
    ledger.note(range(10), tally(4, 3))
    assert (ledger.failed, ledger.missing(range(10))) == ([3], [range(4, 10)])


def test_the_ledger_forgets_old_sources(tmp_path: Path) -> None:
    """It does not grow with every change of the source."""
    path = tmp_path / "ledger.json"
    for mark in range(KEPT + 1):
        Ledger(path, str(mark)).note(range(1), tally(1))
    assert (Ledger(path, "0").seeds, Ledger(path, "1").seeds) == (0, 1)


def test_the_fingerprint_is_that_of_the_source(tmp_path: Path) -> None:
    """Any change of what runs changes it, and nothing else does: no comment and no docstring."""
    for folder in ("src", "sim"):
        (tmp_path / folder).mkdir()
    code = tmp_path / "src" / "a.py"
    code.write_text("def a():\n    return 1\n")
    before = fingerprint(tmp_path)
    (tmp_path / "src" / "notes.txt").write_text("x")
    code.write_text('"""About it."""\n\ndef a():\n    """Return one."""  # always\n    return 1\n')
    assert fingerprint(tmp_path) == before
    code.write_text("def a():\n    return 2\n")
    assert fingerprint(tmp_path) != before
    code.write_text("def a():\n    return 1\n")
    beside = tmp_path / NOT_RUN[0]
    beside.mkdir(parents=True)
    (beside / "c.py").write_text("")
    assert fingerprint(tmp_path) == before
    (tmp_path / "sim" / "b.py").write_text("")
    assert fingerprint(tmp_path) != before


@pytest.mark.ci
def test_what_the_fingerprint_leaves_out_is_not_run() -> None:
    """After simulations in a new process, none of it is loaded."""
    script = (
        "import sys; from sim.campaign import Wanted, run_part; run_part(range(4), Wanted());"
        "print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)), sep='\\n')"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    loaded = [line.removeprefix(f"{ROOT}/") for line in ran.stdout.splitlines()]
    assert "src/headgate/runtime/worker/worker.py" in loaded
    assert [name for name in loaded if name.startswith(NOT_RUN)] == []


def test_a_failure_is_told_with_the_story_of_its_checkpoint() -> None:
    """The part ends with the seed that failed: who was asked, which files came when, how to see it again."""
    with planted("no barrier alignment"):
        found = run_part(range(10), Wanted("known", None, "default"))
    ((seed, story),) = found.failures
    assert found.seeds == seed + 1
    assert f"again: python -m sim --jobs known --mix default --seed {seed} --story" in story
    for word in ("is asked (aligned)", "acknowledges", "_metadata", "complete and committed"):
        assert word in story


def test_the_command_line_shows_a_seed_again() -> None:
    """With the digest that the campaign saw."""
    (run,) = runs_of(4, Wanted("known"))
    shown = sim("--seed", "4", "--jobs", "known")
    assert shown.returncode == 0, shown.stderr
    assert f"seed 4, mix {run.mix}: trace {run.outcome.digest}" in shown.stdout


@pytest.mark.ci
def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    """Sums do not depend on who simulated what; with a ledger the second run has nothing left to do."""
    seeds = range(2 * PART)
    alone = Tally()
    for _, part in campaign([seeds], Wanted("known"), processes=1):
        alone.add(part)
    ledger = str(tmp_path / "ledger.json")
    wanted = ("--seeds", str(len(seeds)), "--jobs", "known", "--ledger", ledger, "--processes", "2")
    results = tmp_path / "results.json"
    first, second = sim(*wanted, "--results", str(results)), sim(*wanted)
    assert (first.returncode, second.returncode) == (0, 0)
    assert f"events {alone.counts['events']}" in first.stdout
    assert json.loads(results.read_text())["events"] == alone.counts["events"]
    assert f"{len(seeds)} seeds are done on this state of the source, 0 are left" in second.stdout
