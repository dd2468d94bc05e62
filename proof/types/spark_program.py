"""The text of a program on Spark that hands records of a type to DataFrames; below the type's own text."""

from __future__ import annotations

from typing import Final

SPARK_JOB: Final = """
import datetime
import enum
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headgate as hg

FOLDER = Path(os.environ["TYPES_FOLDER"]) / "KEY"
COUNT = 12


def in_its_way() -> None:
    if os.environ["TYPES_WAY"] == "isolated":
        assert type(sys.modules) is not dict, "it is not isolated"


class Latest(hg.KeyedProcessFunction[int, Row, Row]):
    latest: hg.ValueState[Row | None] = hg.value_state(default=None)
    seen: hg.ListState[Row] = hg.list_state()

    def process(self, row: Row, ctx: hg.KeyedContext[int]) -> Iterator[Row]:
        in_its_way()
        row_check(row)
        self.latest.value = row
        self.seen.add(row)
        yield row


def remember(frame, epoch):
    kept = [row.asDict(recursive=True) for row in frame.collect()]
    with open(FOLDER / "epochs", "a") as file:
        file.write("".join(f"{json.dumps(row)}\\n" for row in kept))


def rows(env):
    env.checkpoints(every="300ms", storage=str(FOLDER / "checkpoints"))
    env.config("execution.checkpointing.externalized-checkpoint-retention", "retain-on-cancellation")
    made = env.generate(make_row, count=COUNT, rate_per_s=8.0, uid="rows")
    return made.key_by(row_n).process(Latest(), uid="latest")


def equals(found: Any, expected: Any) -> None:
    assert found == expected, f"got {found!r}, expected {expected!r}"


def by_n(rows):
    return sorted(rows, key=lambda row: row["n"])


def frame_is_right(frame):
    found = [row.asDict(recursive=True) for row in frame.collect()]
    equals(by_n(found), [columns_of(n) for n in range(COUNT)])


def epochs_are_right():
    found = [json.loads(line) for line in (FOLDER / "epochs").read_text().splitlines()]
    equals(by_n(found), [columns_of(n) for n in range(COUNT)])


def state_is_right(path):
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    for state in ("latest", "seen"):
        frame = spark.read.format("headgate-savepoint").options(uid="latest", state=state).load(path)
        found = {row["key"]: row["value"].asDict(recursive=True) for row in frame.collect()}
        equals(found, {n: stored_columns_of(n) for n in found})
        assert found, "no row of state"


def report(use, state, said=""):
    with open(FOLDER / "report", "a") as file:
        file.write(json.dumps({"use": use, "state": state, "said": said}) + "\\n")


def judged(use, run):
    try:
        run()
    except Exception as error:
        ours = isinstance(error, hg.HeadgateError)
        state = "refused" if isinstance(error, hg.PlanError) else "fails"
        report(use, state, str(error) if ours else f"{type(error).__name__}: {error}")
    else:
        report(use, "works")
"""

SPARK_RUN: Final = """
def to_dataframe():
    env = hg.Environment(parallelism=2)
    frame_is_right(rows(env).to_dataframe())


def to_spark():
    env = hg.Environment(parallelism=2)
    rows(env).to_spark(remember, uid="spark")
    job = env.execute_async("to-spark")
    global savepoint
    while not any(vertex.records_out for vertex in job.status().vertices):
        time.sleep(0.05)
    savepoint = job.savepoint(str(FOLDER / "savepoints"))
    job.result()
    epochs_are_right()


savepoint = None
judged("to_dataframe", to_dataframe)
judged("to_spark", to_spark)
judged("savepoint read as DataFrame", lambda: state_is_right(savepoint))
"""

SPARK_BUILD: Final = """
import atexit
import threading


def taken():
    # The command executes the job, so it is asked from beside, as from a terminal.
    global savepoint
    deadline = time.monotonic() + 60
    while savepoint is None and time.monotonic() < deadline:
        try:
            job = hg.connect("job")
            if any(vertex.records_out for vertex in job.status().vertices):
                savepoint = job.savepoint(str(FOLDER / "savepoints"))
        except hg.HeadgateError:
            pass
        time.sleep(0.05)


savepoint = None


def build(env):
    env.config("parallelism.default", 2)
    found = rows(env)
    frame = found.to_dataframe_later()
    found.to_spark(remember, uid="spark")
    threading.Thread(target=taken, daemon=True).start()
    atexit.register(lambda: judged("to_dataframe", lambda: frame_is_right(frame.dataframe)))
    atexit.register(lambda: judged("to_spark", epochs_are_right))
    atexit.register(lambda: judged("savepoint read as DataFrame", lambda: state_is_right(savepoint)))
"""
