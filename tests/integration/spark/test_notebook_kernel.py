"""Programs in a real notebook kernel: what its cells show, and what a mistake looks like there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_first_program import HEADGATE, ordinary_user, printed_program, run

pytest.importorskip("ipykernel", reason="an environment of before; make setup brings it")

RUNNER = Path(__file__).with_name("kernel_runner.py")

Shown = dict[str, Any]

LOOKS = """
import headgate as hg
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
---
env = hg.Environment(parallelism=2)
points = env.generate(lambda n: Point(n, n * n), 2_000, uid="points")
points
---
points.filter(lambda point: point.x < 3).preview()
---
points.take(2)
---
by_x = points.key_by("x")
by_x
---
points.map(lambda point: point.z).preview()
---
def told(point: Point) -> Point:
    print("at", point.x)
    return point
points.map(told, uid="told").write_json("first")
env.execute("first")
---
by_x.print(uid="seen")
env.execute("second")
---
env.execute("third")
---
env.checkpoints(interval="1s")
---
env.generate(lambda n: n, rate_per_s=100).write_json("endless")
running = env.execute_async("endless")
running
---
import time
while running.status().state != "running":
    time.sleep(0.05)
running.cancel()
running
---
# stop after 5 s
env.generate(lambda n: n, rate_per_s=100).take(1_000_000)
---
len(points.collect())
"""


def in_kernel(cells: list[str], folder: Path) -> list[Shown]:
    """Run the cells as an ordinary user does; what each of them showed."""
    (folder / "cells.json").write_text(json.dumps(cells))
    command = ordinary_user([sys.executable, str(RUNNER), "cells.json"])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def texts(cell: Shown) -> list[str]:
    """The plain form of each thing that a cell shows."""
    return [data["text/plain"] for data in cell["shown"]]


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(300)
def test_the_first_program_runs_cell_by_cell(tmp_path: Path) -> None:
    """The README's program, cut where a person would cut it; types of its records are defined in cells."""
    assert "commits.jsonl.gz" in run([str(HEADGATE), "example", "commits"], tmp_path)
    shown = in_kernel(printed_program().split("\n\n\n"), tmp_path)
    assert [cell["traceback"] for cell in shown if cell["status"] != "ok"] == []
    progress, result = texts(shown[-1])
    page, end = progress.splitlines()
    assert re.fullmatch(
        r"standings: the page of the job is http://127\.0\.0\.1:\d+; `headgate ui` opens it", page
    )
    assert re.fullmatch(r"standings: finished after .* s: 4,668 records in, checkpoints \d+, restarts 0", end)
    assert re.fullmatch(r"<JobResult 'standings': ended well, after .*, restarts 0>", result)
    lines = [line for part in (tmp_path / "out").rglob("part-*") for line in part.read_text().splitlines()]
    assert sum(not json.loads(line)["quiet"] for line in lines) == 4_668


CARD = """
import time
import headgate as hg
def slow(n):
    time.sleep(0.001)
    return n
env = hg.Environment(parallelism=2, config={"heartbeat.interval": "200ms"})
numbers = env.generate(lambda n: n, 3_000, uid="numbers").rebalance().map(slow, uid="slow")
marked = numbers.rebalance().map(lambda n: n, uid="<b>&lt;")
marked.filter(lambda n: False).write_json("out", uid="out")
env.execute("<img src=x onerror=alert(1)>")
---
1
"""


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_cell_keeps_a_picture_of_how_its_job_ended(tmp_path: Path) -> None:
    """One output, drawn anew while the job runs; what is kept of it needs no script and no kernel."""
    card, after = in_kernel(CARD.split("---\n"), tmp_path)
    assert (card["status"], after["shown"]) == ("ok", [{"text/plain": "1"}])
    data, _ = card["shown"]
    assert card["updates"] >= 3
    html = data["text/html"]
    assert data["text/plain"].splitlines()[-1].startswith("<img src=x onerror=alert(1)>: finished after")
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert not re.search(r"<(script|img|iframe|object|link|style)", html)
    assert html.count("<rect") >= 4  # what is read, and three boxes
    for said in ("finished after", "3,000 records", "records per second, at most"):
        assert said in html


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_session_of_looks_mistakes_and_executions(tmp_path: Path) -> None:
    """Each thing is shown in a line, and a mistake is a sentence below the line of its cell."""
    shown = in_kernel(LOOKS.split("---\n"), tmp_path)
    _, stream, preview, taken, keyed, wrong, first, second, third, misspelt, started, cancelled, *rest = shown
    assert texts(stream) == ["<DataStream 'generate', uid 'points', written at In[2]:2>"]
    assert texts(preview) == ["x | y\n--+--\n0 | 0\n1 | 1\n2 | 4\n3 records"]
    assert "<th" in preview["shown"][0]["text/html"]
    assert len(re.findall(r"Point\(x=\d+, y=\d+\)", texts(taken)[0])) == 2
    assert texts(keyed) == ["<KeyedStream by 'x', written at In[5]:1>"]
    assert wrong["traceback"].startswith("  Cell In[6], line 1")
    assert "AttributeError: 'Point' object has no attribute 'z'" in wrong["traceback"]
    assert "  Cell In[6], line 1, in <lambda>\n    points.map(lambda point: point.z)" in wrong["traceback"]
    assert not re.search(r"ipykernel_\d|headgate/", wrong["traceback"])
    printed = next(text for text in texts(first) if "lines printed" in text)
    assert printed.startswith("2,000 lines printed; the last 20:\ntold[")
    assert len(printed.splitlines()) == 21
    assert first["updates"] < 100
    assert first["streams"] == {}
    seen = next(text for text in texts(second) if "lines printed" in text)
    assert seen.startswith("2,000 lines printed; the last 20:\nseen[")
    assert texts(second)[-1].startswith("<JobResult 'second': ended well")
    assert not any("told[" in text for text in texts(second))
    for refused, cell in ((third, 9), (misspelt, 10)):
        assert refused["traceback"].startswith(f"  Cell In[{cell}], line 1, in <module>\n    env.")
        assert len(refused["traceback"].splitlines()) == 4
    assert "there is nothing to execute as 'third' (In[9]:1): job 'second' has run" in third["traceback"]
    assert (
        "checkpoints() (In[10]:1) takes no argument 'interval'; did you mean 'every'?"
        in misspelt["traceback"]
    )
    assert "<JobHandle 'endless': starting>" in texts(started)
    assert any(text.startswith("<JobHandle 'endless': cancelled, attempt 1") for text in texts(cancelled))
    stopped, last = rest
    assert "Cell In[13], line 2" in stopped["traceback"]
    assert "headgate" not in stopped["traceback"]
    assert texts(last)[-1] == "2000"
