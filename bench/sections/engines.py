"""The engines that count auctions: which data each reads, how it is started, what its answer must be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.data import DataSet, data_set
from bench.machine import ROOT, import_path
from bench.measure import Run, run
from bench.peers import environments as e
from bench.plan import Plan

_PEERS = ROOT / "bench" / "peers"
FILES_OF_STREAM = "5"
"""Files in a micro-batch, of the 25 of a stream; all engines that read it take as many."""
SLOWEST_PER_S = 5_000
"""Bids per second below which a run is given up."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to run J2.

    Attributes:
        key: in the JSON record.
        title: in the table.
        layout: of the data it reads.
        arguments: after the interpreter, given the folder and the number of records.
        peer: the environment it needs; None for the project's own.
        python_peer: whether it counts as a stream processor programmed in Python that is not Spark.
        size: which field of the plan says how many bids it gets.
    """

    key: str
    title: str
    layout: str
    arguments: Callable[[Path, int], list[str]]
    peer: str | None = None
    python_peer: bool = False
    size: str = "events"


def _script(name: str, *more: str) -> Callable[[Path, int], list[str]]:
    return lambda folder, _: [str(_PEERS / name), str(folder), *more]


HEADGATE = Engine(
    "headgate",
    "Headgate, checkpoints 1 s",
    "parquet_p2",
    lambda folder, _: ["-m", "bench.jobs.running_count", str(folder), "on"],
)
LOOP = Engine("dict-loop", "one CPython dict loop (ceiling)", "parquet_p2", _script("dict_loop.py"))
BYTEWAX = Engine(
    "bytewax-recovery",
    "Bytewax, recovery 1 s",
    "json_p2",
    _script("bytewax_run.py", "recovery"),
    e.BYTEWAX,
    python_peer=True,
)
BYTEWAX_PLAIN = Engine(
    "bytewax",
    "Bytewax, no recovery",
    "json_p2",
    _script("bytewax_run.py", "plain"),
    e.BYTEWAX,
    python_peer=True,
)
PATHWAY = Engine(
    "pathway",
    "Pathway, streaming, persistence 1 s",
    "json_p2",
    lambda folder, records: [str(_PEERS / "pathway_count.py"), str(folder), str(records)],
    e.PATHWAY,
    python_peer=True,
)
STATE = Engine(
    "transform-with-state",
    "Spark transformWithState (Row)",
    "parquet_seq",
    _script("spark_state.py"),
    e.SPARK,
    size="state_events",
)
PEERS = (BYTEWAX, BYTEWAX_PLAIN, PATHWAY, STATE)

SPARK_FED = Engine(
    "headgate-fed-by-spark",
    "Headgate, fed by Structured Streaming",
    "parquet_seq",
    lambda folder, _: ["-m", "bench.jobs.spark_fed_count", str(folder), FILES_OF_STREAM],
    size="stream_events",
)
STATE_PANDAS = Engine(
    "transform-with-state-in-pandas",
    "Spark transformWithStateInPandas",
    "parquet_seq",
    _script("spark_state.py", "pandas", FILES_OF_STREAM),
    e.SPARK,
    size="stream_events",
)
APPLY_PANDAS = Engine(
    "apply-in-pandas-with-state",
    "Spark applyInPandasWithState",
    "parquet_seq",
    _script("spark_state.py", "apply", FILES_OF_STREAM),
    e.SPARK,
    size="stream_events",
)
ON_ONE_STREAM = (SPARK_FED, STATE_PANDAS, APPLY_PANDAS)
"""What keeps state on the same stream of Spark's."""


def data_for(engine: Engine, plan: Plan) -> DataSet:
    """The data set that an engine reads, with its layout in place."""
    return data_set(getattr(plan, engine.size), (engine.layout,))


def run_engine(engine: Engine, plan: Plan) -> Run:
    """One run; an answer that differs from the batch answer is a failure.

    Raises:
        AbsentError: the engine is not installed here.
    """
    data = data_for(engine, plan)
    timeout_s = max(plan.timeout_s, data.answer.records / SLOWEST_PER_S)
    python, variables = sys.executable, import_path()
    if engine.peer is not None:
        python, variables = e.interpreter(engine.peer, plan.install)
    command = [python, *engine.arguments(data.layout(engine.layout), data.answer.records)]
    done = run(engine.key, command, timeout_s, variables)
    if done.failure is None:
        done.failure = difference(done.result, data)
    return done


def difference(result: dict[str, object], data: DataSet) -> str | None:
    """What is wrong with a result, in a sentence; None if nothing is."""
    expected = asdict(data.answer)
    del expected["keys"]
    if result.get("answer") != expected:
        return f"the answer is {result.get('answer')}, and a batch over the same bids says {expected}"
    if result.get("failures"):
        return f"an attempt failed: {result['failures']}"
    return None
