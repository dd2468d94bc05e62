"""How large each measurement is: the full form and the smoke form, and what the command line changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

SECTIONS = (
    "j2",
    "checkpoint-cost",
    "barriers",
    "memory",
    "backpressure",
    "latency",
    "window-latency",
    "open-sessions",
    "marks-latency",
    "marks-cost",
    "open-rows",
    "state",
    "state-large",
    "savepoints",
    "spark-j2",
    "spark-border",
    "spark-state",
    "spark-bootstrap",
    "user-code",
    "isolation",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of one run of the suite.

    Attributes:
        smoke: the short form: it shows that everything works, its numbers mean little.
        events: bids of J2 and of the checkpoint cost.
        state_events: bids for Spark's transformWithState, which would take minutes on all of them.
        stream_events: bids of the stream that feeds Headgate and Spark's own state in Python.
        stream_rounds: how often it goes round them; one takes twelve minutes.
        rounds: how often J2 goes round all engines.
        pairs: of jobs with and without checkpoints, for each program and kind of checkpoint.
        warm_jobs: uncounted jobs of each program before the pairs.
        peers: whether other engines run at all.
        install: whether absent peers are installed.
        memory_s: length of the stream whose memory is watched.
        memory_warm_up_s: its beginning, which does not count.
        memory_rate: its records per second.
        blocked_s: about how long the slow sink takes.
        barriers_s: about how long the slow sink takes in each mode of the checkpoints.
        barriers_sleep_us: how long it sleeps for each record, in each writer.
        barriers_warm_up_s: the beginning, in which the queues fill and checkpoints do not count.
        barriers_credit: frames that may be under way on a channel; fewer are sooner full.
        delay_s: length of the stream whose latency is measured.
        delay_warm_up_s: its beginning, which does not count.
        window_rate: records per second of the stream whose windows' latency is measured.
        session_keys: keys that have an open session each.
        mark_rate: records per second of the stream whose corrections are measured.
        mark_events: of Nexmark, of the jobs at full speed with more and with fewer marks.
        mark_rounds: of these.
        mark_pairs: of jobs at a steady rate with more and with fewer marks.
        open_rows: of both tables of a join, which wait for partners.
        state_heap_keys: keys over which access to the heap is compared.
        state_rocks_keys: keys over which access to RocksDB is compared.
        state_batches: of 1,000 records in a round of these.
        state_rounds: of these.
        state_pause_keys: on the heap while its checkpoints are drawn and restored.
        state_pauses: checkpoints.
        state_keys: in RocksDB while its checkpoints are drawn and restored.
        state_job_rounds: of jobs with state in RocksDB, on `state_events` bids.
        state_large_keys: under a bound of memory; 0: left out.
        state_large_updates: at random among them.
        savepoint_keys: whose savepoints are written, verified and restored.
        border_rows: that go through a bounded DataFrame in and out.
        border_rounds: of these, each beside one of Spark alone.
        spark_state_keys: in a savepoint that is read into Spark.
        spark_state_entries: in checkpoints that are.
        spark_state_rounds: of these reads.
        spark_bootstrap_keys: of a DataFrame that becomes a savepoint.
        spark_bootstrap_rounds: of these writes.
        user_code_calls: through the border, in each round.
        user_code_modules: of a package that is imported for the first time.
        user_code_rounds: of these imports.
        isolation_rounds: pairs of programs of each kind, plain and isolated.
        timeout_s: for one job, whatever it is, besides its intended length.
    """

    smoke: bool = False
    events: int = 5_000_000
    state_events: int = 1_000_000
    stream_events: int = 5_000_000
    stream_rounds: int = 1
    rounds: int = 3
    pairs: int = 9
    warm_jobs: int = 1
    peers: bool = True
    install: bool = True
    memory_s: int = 600
    memory_warm_up_s: int = 60
    memory_rate: int = 400_000
    blocked_s: float = 30.0
    barriers_s: float = 39.0
    barriers_sleep_us: float = 25.0
    barriers_warm_up_s: float = 2.0
    barriers_credit: int = 4
    delay_s: float = 30.0
    delay_warm_up_s: float = 5.0
    window_rate: int = 100_000
    session_keys: int = 1_000_000
    mark_rate: int = 50_000
    mark_events: int = 2_000_000
    mark_rounds: int = 7
    mark_pairs: int = 3
    open_rows: int = 10_000_000
    state_heap_keys: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    state_rocks_keys: tuple[int, ...] = (100_000, 1_000_000)
    state_batches: int = 300
    state_rounds: int = 7
    state_pause_keys: int = 1_000_000
    state_pauses: int = 100
    state_keys: int = 10_000_000
    state_job_rounds: int = 3
    state_large_keys: int = 50_000_000
    state_large_updates: int = 1_000_000
    savepoint_keys: int = 1_000_000
    border_rows: int = 3_000_000
    border_rounds: int = 7
    spark_state_keys: int = 10_000_000
    spark_state_entries: int = 300_000
    spark_state_rounds: int = 5
    spark_bootstrap_keys: int = 10_000_000
    spark_bootstrap_rounds: int = 3
    user_code_calls: int = 500_000
    user_code_modules: int = 300
    user_code_rounds: int = 9
    isolation_rounds: int = 15
    timeout_s: float = 300.0


FULL = Plan()
SMOKE = Plan(
    smoke=True,
    events=200_000,
    state_events=200_000,
    stream_events=200_000,
    rounds=1,
    pairs=1,
    install=False,
    memory_s=15,
    memory_warm_up_s=5,
    memory_rate=100_000,
    blocked_s=3.0,
    barriers_s=2.0,
    barriers_sleep_us=8.0,
    barriers_warm_up_s=0.5,
    barriers_credit=1,
    delay_s=4.0,
    delay_warm_up_s=1.0,
    window_rate=10_000,
    session_keys=20_000,
    mark_rate=5_000,
    mark_events=100_000,
    mark_rounds=1,
    mark_pairs=1,
    open_rows=50_000,
    state_heap_keys=(10_000,),
    state_rocks_keys=(20_000,),
    state_batches=20,
    state_rounds=1,
    state_pause_keys=50_000,
    state_pauses=3,
    state_keys=100_000,
    state_job_rounds=1,
    state_large_keys=0,
    state_large_updates=0,
    savepoint_keys=20_000,
    border_rows=20_000,
    border_rounds=1,
    spark_state_keys=100_000,
    spark_state_entries=20_000,
    spark_state_rounds=1,
    spark_bootstrap_keys=100_000,
    spark_bootstrap_rounds=1,
    user_code_calls=20_000,
    user_code_modules=30,
    user_code_rounds=1,
    isolation_rounds=1,
    timeout_s=90.0,
)


def chosen(smoke: bool, rounds: int | None, events: int | None, peers: bool) -> Plan:
    """The plan that a command line asks for.

    Example:
        >>> plan = chosen(smoke=False, rounds=1, events=1000, peers=False)
        >>> plan.rounds, plan.events, plan.state_events, plan.peers
        (1, 1000, 1000, False)
    """
    plan = SMOKE if smoke else FULL
    plan = replace(plan, peers=peers)
    if rounds is not None:
        plan = replace(plan, rounds=rounds, stream_rounds=rounds)
    if events is not None:
        plan = replace(plan, events=events, state_events=min(events, plan.state_events), stream_events=events)
    return plan
