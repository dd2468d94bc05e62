"""A job with packages of its own on a cluster: an executor dies, and version 2 goes on from a savepoint."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from running import BIN, headgate, own_session, program

from proof.standalone import StandaloneCluster

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(900)]

JOB = Path(__file__).parent / "programs" / "with_packages" / "job.py"
KEYS = 5
RECORDS = 20_000
PRICES = """
from dataclasses import dataclass

VERSION = {version}

@dataclass
class Money:
    cents: int{field}

    def plus(self, cents):
        return Money(self.cents + cents{argument})

    def shown(self):
        return str(self.cents){suffix}
"""
VERSIONS = {
    1: PRICES.format(version=1, field="", argument="", suffix=""),
    2: PRICES.format(
        version=2, field="\n    currency: str = 'EUR'", argument=", self.currency", suffix=" + self.currency"
    ),
}


def packages(folder: Path, version: int) -> Path:
    """A folder that the job brings."""
    (folder / "prices").mkdir(parents=True)
    (folder / "prices" / "__init__.py").write_text(VERSIONS[version])
    (folder / "msgspec").mkdir()
    (folder / "msgspec" / "__init__.py").write_text(f"WHOSE = 'of the job, {version}'\n")
    return folder


def job(cluster: StandaloneCluster, folder: Path, version: int, options: Sequence[str] = ()) -> Any:
    """`headgate run`, with the packages of a version."""
    brought = packages(folder / f"deps-{version}", version)
    command = [
        *(str(BIN / "headgate"), "run", str(JOB), "--with", str(brought)),
        *("-D", f"headgate.spark.master={cluster.url}", *options, str(folder), str(RECORDS)),
    ]
    return program(command, variables=own_session())


def published(folder: Path) -> list[dict[str, Any]]:
    """Rows of all published files."""
    files = (folder / "out").glob("part-*.jsonl")  # what is not committed yet is in a folder of its own
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def assert_exactly_once(rows: list[dict[str, Any]]) -> None:
    """Every total of every key is there once."""
    each = range(1, RECORDS // KEYS + 1)
    expected = [(key, total) for key in range(KEYS) for total in each]
    assert sorted((row["key"], row["total"]) for row in rows) == expected


def test_an_executor_dies_and_version_2_goes_on(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Executors unpack what the job brings, also those that come later; state is restored as version 2's."""
    with job(cluster, tmp_path, 1) as run:
        run.wait_for("running, attempt 1")
        published_more(tmp_path)
        (executor, *_) = cluster.workers[0].executors()
        executor.kill()
        run.wait_for("running, attempt 2")
        published_more(tmp_path)
        stopped = headgate("stop", "with-packages", "--dir", str(tmp_path / "savepoints"), "--json")
        savepoint = json.loads(stopped)["savepoint"]
        run.ended()
    (tmp_path / "hurry").touch()
    with job(cluster, tmp_path, 2, ["--from", savepoint]) as run:
        run.ended()
    rows = published(tmp_path)
    assert_exactly_once(rows)
    assert {(row["version"], row["msgspec"]) for row in rows} == {(1, "of the job, 1"), (2, "of the job, 2")}
    assert {row["shown"] for row in rows if row["version"] == 2} == {
        f"{row['total']}EUR" for row in rows if row["version"] == 2
    }
    places = {row["file"].partition("headgate-user-code-")[0] for row in rows}
    assert all("/executor-" in place for place in places), places
    assert len({row["pid"] for row in rows if row["version"] == 1}) >= 3


def published_more(folder: Path) -> None:
    """Wait until more is published than now."""
    before, deadline = len(published(folder)), time.monotonic() + 120
    while len(published(folder)) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
