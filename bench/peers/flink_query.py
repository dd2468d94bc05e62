"""Flink SQL by PyFlink: one SELECT over files, exactly once with checkpoints every second.

    flink_query.py ORDER.json

The answer goes into Flink's blackhole, or into Parquet files. Times come from Flink's own REST interface.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.request
from typing import Any

from orders import Order, carry_out, report, versions
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

LOOK_S = 0.25
TYPES = {"timestamp": "TIMESTAMP_LTZ(6)"}
PARQUET = "'format'='parquet', 'parquet.utc-timezone'='true'"
CHANGES = "'format'='canal-json', 'canal-json.timestamp-format.standard'='ISO-8601'"
FORMATS = {"parquet": PARQUET, "json": "'format'='json', 'json.timestamp-format.standard'='ISO-8601'"}


SIDE_INPUT = """
    CREATE TABLE side_input (
        place BIGINT, digits BIGINT, since AS TO_TIMESTAMP_LTZ(0, 3),
        WATERMARK FOR since AS since, PRIMARY KEY (place) NOT ENFORCED
    ) WITH ('connector'='datagen', 'rows-per-second'='1000000', 'fields.place.kind'='sequence',
        'fields.place.start'='0', 'fields.place.end'='9999', 'fields.digits.kind'='sequence',
        'fields.digits.start'='0', 'fields.digits.end'='9999')
"""
"""Ten thousand values by their places, of which each has been the same since 1970."""
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""What Nexmark's own configuration of Flink has for answers that are corrected."""


class Watch(threading.Thread):
    """Looks at the running job again and again.

    Attributes:
        began: when the first subtask of a source ran, in seconds since 1970; None before.
        checkpoints: that were completed.
    """

    def __init__(self, port: int, job: str) -> None:
        super().__init__(daemon=True)
        self._address = f"http://127.0.0.1:{port}/jobs/{job}"
        self.began: float | None = None
        self.checkpoints = 0

    def run(self) -> None:
        """Until the job's cluster is gone."""
        while True:
            try:
                if self.began is None:
                    self.began = self._began()
                self.checkpoints = self._get("/checkpoints")["counts"]["completed"]
            except (OSError, KeyError, ValueError):
                pass
            time.sleep(LOOK_S)

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._address + path, timeout=5) as answer:
            return json.load(answer)

    def _began(self) -> float | None:
        sources = [vertex for vertex in self._get("")["vertices"] if vertex["name"].startswith("Source")]
        subtasks = [each for vertex in sources for each in self._get(f"/vertices/{vertex['id']}")["subtasks"]]
        times = [
            subtask["start-time"]
            + sum(subtask["status-duration"][state] for state in ("DEPLOYING", "INITIALIZING"))
            for subtask in subtasks
            if subtask["status"] in ("RUNNING", "FINISHED")
        ]
        return min(times) / 1e3 if times else None


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def environment(order: Order, port: int) -> StreamTableEnvironment:
    """Two slots in one JVM, state on the heap."""
    settings = {
        "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "web.refresh-interval": "200",
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{order.work}/checkpoints",
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    tables = StreamTableEnvironment.create(
        StreamExecutionEnvironment.get_execution_environment(configuration)
    )
    tables.get_config().set("table.local-time-zone", "UTC")
    for key, value in MINI_BATCHES.items() if order.updating else ():
        tables.get_config().set(key, value)
    return tables


def columns(named: Any) -> str:
    """Columns of a CREATE TABLE."""
    return ", ".join(f"`{name}` {TYPES.get(kind, kind.upper())}" for name, kind in named)


def source(order: Order, name: str) -> str:
    """CREATE TABLE of an input."""
    files = order.tables[name]
    more = ", arrived AS PROCTIME()"
    if "event_time" in order.text:
        more += ", event_time AS CAST(`dateTime` AS TIMESTAMP_LTZ(3)), "
        more += "WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND"
    where = f"'connector'='filesystem', 'path'='file://{files.folder}', {FORMATS[order.format]}"
    return f"CREATE TABLE {name} ({columns(files.columns)}{more}) WITH ({where})"


def sink(order: Order) -> str:
    """CREATE TABLE of the output; changes go into files as JSON, since Parquet has none."""
    folder, form = (f"{order.out}/canal-json", CHANGES) if order.updating else (order.out, PARQUET)
    files = f"'connector'='filesystem', 'path'='file://{folder}', {form}"
    where = files if order.out else "'connector'='blackhole'"
    return f"CREATE TABLE answer ({columns(order.columns)}) WITH ({where})"


def main() -> None:
    """The program."""
    order, port = Order.read(sys.argv[1]), free_port()
    tables = environment(order, port)
    for name in order.tables:
        tables.execute_sql(source(order, name))
    if "side_input" in order.text:
        tables.execute_sql(SIDE_INPUT)
    tables.execute_sql(sink(order))
    submitted = time.time()
    running = tables.execute_sql(f"INSERT INTO answer {order.text}")
    watch = Watch(port, str(running.get_job_client().get_job_id()))
    watch.start()
    running.wait()
    report(
        began=watch.began or submitted,
        ended=time.time(),
        checkpoints=watch.checkpoints,
        versions=versions("apache-flink"),
    )


if __name__ == "__main__":
    carry_out(main)
