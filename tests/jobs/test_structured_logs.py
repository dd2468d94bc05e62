"""Log lines of real jobs as JSON: of the driver, of workers, and what user code logs and prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

PROGRAM = """
import logging, sys
import headgate as hg
from headgate.testing import MiniCluster, ProcessCluster

class Odd(hg.KeyedProcessFunction):
    seen: hg.ValueState[int] = hg.value_state(default=0)
    def process(self, record, ctx):
        self.seen.value += 1
        log = logging.getLogger("my.module")
        if record == 0:
            log.warning("hostile %s", "a\\nb\\x00\\ud800" + "x" * 1_000_000, extra={"order": 7})
            log.info("reads postgresql://ada:hidden1@db/x with s3.secret-key=hidden2 hidden-key-of-s3")
            print("printed\\x1b[2J here")
        if record == 5 and not flag.exists():
            flag.touch()
            raise ValueError("five\\nis odd, hidden-key-of-s3")
        yield record

from pathlib import Path
flag = Path(__file__).with_name("failed")

if __name__ == "__main__":
    from headgate.display.progress import listener_for
    cluster = {"mini": MiniCluster, "processes": ProcessCluster}[sys.argv[1]]
    class Shown(cluster):
        def execute(self, job):
            self._listener = listener_for(job.config, job.name, job.plan)
            return super().execute(job)
    config = {"s3.access-key": "hidden-id-of-s3", "s3.secret-key": "hidden-key-of-s3"}
    config |= dict(each.split("=") for each in sys.argv[2:])
    env = hg.Environment(parallelism=2, executor=Shown(), config=config)
    env.checkpoints(every="100ms", storage=str(Path(__file__).with_name("checkpoints")))
    numbers = env.from_collection(range(10), uid="in")
    kept = numbers.key_by(lambda n: n % 3).process(Odd(), uid="odd")
    kept.write_json(str(flag.with_name("out")), uid="out")
    env.execute("structured")
"""


TWO_JOBS = """
import logging, sys
import headgate as hg
from headgate.testing import MiniCluster

def begun(secret):
    config = {"headgate.logs.format": "json", "s3.access-key": "key", "s3.secret-key": secret}
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    numbers = env.generate(lambda n: n, rate_per_s=20, uid="in")
    numbers.key_by(lambda n: n).process(Told(secret), uid="told").collect_later(uid="out")
    return env.execute_async("twins")

class Told(hg.KeyedProcessFunction):
    def __init__(self, secret):
        self.secret = secret
    def process(self, record, ctx):
        logging.getLogger("my.module").info("uses %s", self.secret)
        yield from ()

if __name__ == "__main__":
    import time
    first, second = begun("hidden-key-1"), begun("hidden-key-2")
    while {first.status().state, second.status().state} != {"running"}:
        time.sleep(0.05)
    time.sleep(1)
    first.cancel()
    assert first.status().state == "cancelled" and second.status().state == "running"
    logging.getLogger("my.module").info("the first has ended, with hidden-key-1 and hidden-key-2")
    time.sleep(0.5)
    second.cancel()
"""


def lines_of(folder: Path, *command: str, code: int = 0, source_code: str = PROGRAM) -> list[dict[str, Any]]:
    """What a program has written on its standard error, each line read by a strict parser."""
    program = folder / "job.py"
    program.write_text(source_code)
    source = str(Path(__file__).resolve().parents[2] / "src")
    with (folder / "log").open("w") as log:
        ended = subprocess.run(
            [sys.executable, *command[:-1], str(program), *command[-1].split()], stderr=log,
            stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder, timeout=55,
            env={**os.environ, "PYTHONPATH": source, "HEADGATE_HOME": str(folder / "home")},
        )  # fmt: skip
    written = (folder / "log").read_bytes()
    assert ended.returncode == code, written[-3000:].decode()
    return [msgspec.json.decode(line) for line in written.splitlines()]


@pytest.mark.parametrize("cluster", ["mini", "processes"])
def test_every_line_of_a_job_is_an_object(tmp_path: Path, cluster: str) -> None:
    """Of a plain program, which wants it by its own settings: ids, exceptions, hostile texts, no secret."""
    options = "headgate.logs.format=json restart-strategy.type=fixed-delay"
    lines = lines_of(tmp_path, f"{cluster} {options}")
    assert "hidden" not in json.dumps(lines)
    of_users = [line for line in lines if line["logger"] == "my.module"]
    hostile = next(line for line in of_users if line["message"].startswith("hostile a\nb\0\\ud800xxx"))
    assert "characters left out" in hostile["message"]
    names = ("job_name", "uid", "attempt", "level")
    assert [hostile[name] for name in names] == ["structured", "odd", 1, "WARNING"]
    assert hostile["job_id"].startswith("structured-2")
    assert hostile["worker"] == hostile["subtask"] in (0, 1)
    assert hostile["extra"] == {"order": 7}
    printed = next(line for line in lines if line["logger"] == "headgate.print")
    assert printed["message"].endswith("]: printed\\x1b[2J here")
    assert (printed["uid"], printed["job_id"]) == ("odd", hostile["job_id"])
    of_driver = [line for line in lines if line["logger"] == "headgate.job"]
    events = [line["extra"]["event"] for line in of_driver]
    assert events[:3] == ["submitted", "deploying", "running"] or events[:2] == ["submitted", "running"]
    assert events[-1] == "finished"
    failed = next(line for line in of_driver if line["extra"]["event"] == "restarting")
    assert "ValueError: five" in failed["message"]
    assert (failed["attempt"], failed["worker"], failed["level"]) == (1, None, "WARNING")
    assert {line["attempt"] for line in of_driver if line["extra"]["event"] == "running"} == {1, 2}
    assert {line["job_id"] for line in of_driver} == {hostile["job_id"]}


def test_the_command_ends_with_an_object(tmp_path: Path) -> None:
    """What `headgate run` says of a job that failed is a line as well."""
    arguments = "-D headgate.logs.format=json -D restart-strategy.type=none -- processes"
    lines = lines_of(tmp_path, "-m", "headgate", "run", arguments, code=3)
    assert lines[-1]["logger"] == "headgate.process"
    assert lines[-1]["message"].startswith("headgate: operator")
    assert "ValueError: five\nis odd" in lines[-1]["message"]
    assert "hidden" not in json.dumps(lines)


def test_two_jobs_of_one_program_and_name_log_until_both_have_ended(tmp_path: Path) -> None:
    """The second one's lines are objects after the end of the first; each line is its own job's."""
    lines = lines_of(tmp_path, "", source_code=TWO_JOBS)
    assert "hidden" not in json.dumps(lines)
    messages = [line["message"] for line in lines]
    between = messages.index("the first has ended, with ****** and ******")
    before = {line["job_id"] for line in lines[:between] if line["uid"] == "told"}
    after = {line["job_id"] for line in lines[between:] if line["uid"] == "told"}
    assert (len(before), len(after), after < before) == (2, 1, True)
    assert {line["job_name"] for line in lines if line["uid"] == "told"} == {"twins"}
