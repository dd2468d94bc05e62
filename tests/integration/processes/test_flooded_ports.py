"""A whole job whose ports are all flooded by strangers notices nothing, also while it replaces a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from test_process_cluster import COUNT, RESTART_AT_ONCE, Witness, counting, expected, pairs, written

import headgate as hg
from headgate.common.errors import OperatingError
from headgate.testing import ProcessCluster

EACH = 320
"""Connections that are open to each port all the time; more than a port takes of those that prove nothing."""

PER_SECOND = 100
"""Of them so many are replaced by new ones."""


class Flood:
    """Strangers at ports."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.ports: set[tuple[str, int]] = set()
        self.made: dict[str, int] = {}

    def reach(self, ports: set[tuple[str, int]]) -> None:
        """From now on at these, too."""
        if not ports <= self.ports:
            self.ports |= ports
            order = {"ports": sorted(self.ports), "each": EACH, "per_second": PER_SECOND}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()


@contextmanager
def flood() -> Iterator[Flood]:
    """A process that opens connections until the end."""
    command = [sys.executable, str(Path(__file__).with_name("flooding.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        found = Flood(process)
        try:
            yield found
            out, _ = process.communicate(timeout=30)
            found.made = json.loads(out)
        finally:
            process.kill()


def listening(pid: int) -> set[tuple[str, int]]:
    """Where a process listens."""
    with suppress(psutil.Error):
        found = psutil.Process(pid).net_connections("tcp")
        return {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}
    return set()


def asked(name: str) -> tuple[float, Any]:
    """How long an answer takes, and what it is; None where the job has ended."""
    began = time.monotonic()
    try:
        return 0.0, hg.connect(name).status()
    except (hg.UsageError, OperatingError):
        return 0.0, None
    finally:
        assert time.monotonic() - began < 5, "the endpoint answers although it is flooded"


@pytest.mark.ci
def test_a_flooded_job_notices_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control port, endpoint, workers: one failure, the kill; exact output; answers in time."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    before = listening(os.getpid())
    witness = Witness()
    cluster = ProcessCluster(witness)
    env = counting(cluster, tmp_path, 2, rate=100, count=COUNT, config={"rest.enabled": True}, every="200ms")
    with flood() as strangers, env.execute_async("flooded") as handle:
        completed, struck, answers = 0, False, 0
        while not handle.done:
            mine = {port for pid in cluster.processes.values() for port in listening(pid)}
            strangers.reach((listening(os.getpid()) - before) | mine)
            answers += asked("flooded")[1] is not None
            if not struck and witness.checkpoints >= 10:
                struck, completed = cluster.kill(1), witness.checkpoints
            time.sleep(0.05)
        result = handle.result()
    assert struck
    assert len(witness.failures) == result.restarts == 1, witness.failures
    assert "SIGKILL" in witness.failures[0]
    assert pairs(written(tmp_path)) == expected()
    assert witness.checkpoints >= completed + 10
    assert answers >= 20
    # Control port, endpoint, two workers, and the two that took their places.
    assert len(strangers.made) == 6
    assert all(made > EACH for made in strangers.made.values()), strangers.made


class Loud(hg.KeyedProcessFunction[int, int, Any]):
    """Raises 20 MB of text for a record that is as long."""

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        raise ValueError("head " + "x" * (20 << 20) + " tail")
        yield


@pytest.mark.ci
def test_a_long_text_of_an_exception_is_nowhere_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Raised in a worker three times: what the driver keeps, tells and writes is short, and has both ends."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    witness = Witness()
    config = {**RESTART_AT_ONCE, "restart-strategy.fixed-delay.attempts": 2, "rest.enabled": True}
    env = hg.Environment(parallelism=2, executor=ProcessCluster(witness), config=config)
    numbers = env.generate(lambda n: n, count=10, uid="in")
    numbers.key_by(lambda n: n).process(Loud(), uid="loud").write_json(str(tmp_path / "out"), uid="out")
    with pytest.raises(hg.HeadgateError) as caught:
        env.execute("loud")
    assert len(witness.failures) == 3
    for text in (str(caught.value), *witness.failures):
        assert "head x" in text
        assert " tail" in text
        assert len(text) < 500_000
    out, err = capfd.readouterr()
    assert len(out) + len(err) < 2_000_000


def test_halves_of_characters_in_an_exception_do_not_cost_the_worker(tmp_path: Path) -> None:
    """JSON and names of files bring them into texts: the driver is told of the exception and its place."""

    def refuse(number: int) -> int:
        raise ValueError(f"no name: {json.loads(chr(34) + chr(92) + 'ud800' + chr(34))}")

    env = hg.Environment(parallelism=1, executor=ProcessCluster(), config={"restart-strategy.type": "none"})
    env.from_collection([1]).map(refuse, uid="names").write_json(str(tmp_path / "out"))
    with pytest.raises(hg.UserFunctionError, match=r"uid 'names'.* raised ValueError: no name: \\ud800"):
        env.execute("halves")
