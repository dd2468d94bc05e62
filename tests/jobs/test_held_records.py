"""Jobs that hold later records of a key behind one on which the function fails, for their next release."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve, wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.connectors.quarantine.quarantined_records import kept_in
from headgate.testing import simulate

KEYS, BAD = 7, frozenset({12, 20, 26})
FIRST_BAD = (12, 20)
"""Of their keys: 26 is held behind 12."""
BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "changelog": {"state.changelog.enabled": True},
}


class Chained(hg.KeyedProcessFunction[int, dict[str, int], Any]):
    """Each result depends on all before it; a timer is set for each record. Fails on `bad` numbers."""

    last: hg.ValueState[int] = hg.value_state(default=0)
    place: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, bad: frozenset[int], *, timers: bool = True) -> None:
        self.bad, self.timers = bad, timers

    def process(self, record: dict[str, int], ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        n = record["n"]
        self.place.value += 1
        self.last.value = (31 * self.last.value + n) % 1_000_003
        if self.timers:
            ctx.timers.register_event_time(n + 3 * KEYS)
        yield ctx.key, self.place.value, n, self.last.value
        if n in self.bad:
            raise ValueError(f"no {n}")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.place.value += 1
        self.last.value = (31 * self.last.value + 1_000 + timestamp) % 1_000_003
        yield ctx.key, self.place.value, -timestamp, self.last.value


def key_of(record: dict[str, int]) -> int:
    return record["n"] % KEYS


def answer(count: int, *, timers: bool = True) -> list[tuple[int, int, int, int]]:
    """What comes of all records without the bug: with each record come the timers that its time makes due."""
    found = []
    for key in range(KEYS):
        events = [(n, 1, n) for n in range(key, count, KEYS)]
        # The watermark is a ms behind the newest record, and so a timer of its time comes after the record.
        rings = [(n + 3 * KEYS, 2, -(n + 3 * KEYS)) for n, _, _ in events if timers]
        last = 0
        for place, (time, kind, shown) in enumerate(sorted([*events, *rings]), 1):
            last = (31 * last + (shown if kind == 1 else 1_000 + time)) % 1_000_003
            found.append((key, place, shown, last))
    return sorted(found)


class Job:
    """A program in versions, whose input comes as far as a valve lets it."""

    def __init__(self, folder: Path, valve: Valve, config: dict[str, Any]) -> None:
        self.folder, self.valve, self.config = folder, valve, config
        self.kills: set[int] = set()
        self.timers = True

    def begun(
        self, release: str, parallelism: int, bad: frozenset[int], since: str | None = None
    ) -> hg.JobHandle:
        env = environment(
            parallelism, {**TINY, **RESTART_AT_ONCE, "quarantine.max-share": 1.0, **self.config}
        )
        env.checkpoints(every="5ms", storage=str(self.folder / "checkpoints"))
        kills, folder = self.kills, self.folder

        def killed(result: Any) -> Any:
            if result[2] in kills and not (folder / f"killed{result[2]}").exists():
                (folder / f"killed{result[2]}").touch()
                raise OSError("killed")
            return result

        numbers = env.from_source(self.valve, uid="in").map(lambda n: {"n": n})
        timed = numbers.with_event_time("n", out_of_orderness="0ms")
        policy = hg.quarantine(hold=50, release=release)
        function = Chained(bad, timers=self.timers)
        chained = timed.key_by(key_of).process(function, uid="chained", on_error=policy)
        chained.map(killed).write_json(str(self.folder / "out"), uid="out")
        return env.execute_async("held", restore_from=since)

    def kept(self) -> list[Any]:
        place = self.folder / "checkpoints"
        return [] if not (place / "quarantine").is_dir() else list(kept_in(place))

    def results(self) -> list[tuple[int, int, int, int]]:
        found = [tuple(row) for row in json_lines(self.folder / "out")]
        return sorted(found)


@pytest.mark.ci
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 3)])
def test_a_key_is_processed_in_order_once_it_is_released(
    backend: str, before: int, after: int, tmp_path: Path
) -> None:
    """Over a kill in the release that fails, a stop with a savepoint, a rescale, and kills in and after."""
    valve = Valve(2_470, 10, range(200))
    job = Job(tmp_path, valve, BACKENDS[backend])
    job.kills = {64}
    job.timers = before == 1  # between several channels event time is not the same in each run
    handle = job.begun("1", before, BAD)
    wait_until(job.results, "a checkpoint is complete")
    valve.open_to(40)
    wait_until(
        lambda: len({each.record for each in job.kept()}) == 2, "the bad records are in the quarantine"
    )
    valve.open_to(90)
    free = set(range(KEYS)) - {n % KEYS for n in BAD}
    wait_until(lambda: {each[0] for each in job.results() if each[2] > 80} >= free, "others have come")
    assert {each[0] for each in job.results() if each[2] > 40} == free
    savepoint = handle.stop(str(tmp_path / "savepoints"))
    assert handle.result().restarts == 1
    job.kills = {40, 150}  # 40 is held
    handle = job.begun("2", after, frozenset(), savepoint)
    valve.open_to()
    assert handle.result().restarts == 2
    assert job.results() == answer(200, timers=job.timers)
    kept = job.kept()
    assert sorted(each.record for each in kept) == sorted(str({"n": n}) for n in FIRST_BAD)
    assert all(each.held for each in kept)
    assert environment(1).from_quarantine(tmp_path / "checkpoints", uid="again").collect() == []
    shown = CliRunner().invoke(app, ["quarantine", "show", str(tmp_path / "checkpoints")]).stdout
    assert shown.count(", held for the next release") == 2
    listed = CliRunner().invoke(app, ["quarantine", "list", str(tmp_path / "checkpoints"), "--all", "--json"])
    assert [(row["state"], row["records"]) for row in json.loads(listed.stdout)["quarantined"]] == [
        ("held", 2)
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_held_at_the_end_of_the_input_is_released_by_the_next_version(
    backend: str, tmp_path: Path
) -> None:
    """Though no record comes any more; from a checkpoint, in the backend's own form."""
    job = Job(tmp_path, Valve(2_471, float("inf"), range(60)), BACKENDS[backend])
    job.begun("1", 1, BAD).result()
    assert len(job.results()) < len(answer(60))
    newest = max((tmp_path / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    job.begun("2", 1, frozenset(), str(newest)).result()
    assert job.results() == answer(60)


def test_under_faults_what_is_held_stays_held() -> None:
    """In the simulator, with processes and drivers that die: within one release nothing is released."""

    def build(env: hg.Environment) -> None:
        timed = env.from_collection([{"n": n} for n in range(100)], uid="in").with_event_time("n")
        policy = hg.quarantine(hold=50, release="1")
        chained = timed.key_by(key_of).process(Chained(BAD), uid="chained", on_error=policy)
        chained.map(lambda result: result[:1], uid="keys").collect_later(uid="out")
        chained.side_output(hg.ERRORS).map(lambda each: (each.record, each.held), uid="bad").collect_later(
            uid="kept"
        )

    expected = []
    for key, _, shown, _ in answer(100):
        first_bad = min((n for n in BAD if n % KEYS == key), default=1_000)
        # A timer of the bad record's own time comes after it.
        if (shown >= 0 and shown < first_bad) or (shown < 0 and -shown < first_bad):
            expected.append((key,))
    kept = [(str({"n": n}), True) for n in FIRST_BAD]
    report = simulate(build, seeds=range(6), expected={"out": expected, "kept": kept})
    assert report.restarts > 0


def test_a_version_without_hold_is_refused_while_records_are_held(tmp_path: Path) -> None:
    """They would be lost without a word."""

    def run(policy: Any, since: str | None = None) -> None:
        env = environment(1, {**TINY, "quarantine.max-share": 1.0})
        env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
        numbers = env.from_collection([{"n": n} for n in range(30)], uid="in").with_event_time("n")
        chained = numbers.key_by(key_of).process(Chained(BAD), uid="chained", on_error=policy)
        chained.write_json(str(tmp_path / "out"), uid="out")
        env.execute("without", restore_from=since)

    run(hg.quarantine(hold=50, release="1"))
    newest = max((tmp_path / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    with pytest.raises(hg.UsageError, match="holds state 'held-under', which the program does not declare"):
        run(hg.quarantine, str(newest))


@dataclasses.dataclass
class Order:
    """A record of a class."""

    user: str
    amount: str


def order_of(amount: str) -> Order:
    return Order("ada", amount)


class Amounts(hg.KeyedProcessFunction[str, Order, int]):
    """Emits numbers; of texts that are none, once it is `mended`, their length."""

    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    def process(self, order: Order, ctx: hg.KeyedContext[str]) -> Iterator[int]:
        assert type(order) is Order
        yield len(order.amount) if self.mended and not order.amount.isdigit() else int(order.amount)


def test_records_of_classes_are_released_as_such(tmp_path: Path) -> None:
    """Where the program says of which class they are; the function has no state of its own."""

    def run(release: str, *, mended: bool, since: str | None = None) -> None:
        env = environment(1, {**TINY, "quarantine.max-share": 1.0})
        env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
        orders = env.from_collection(["7", "three", "9"], uid="in").map(order_of)
        policy = hg.quarantine(hold=5, release=release)
        amounts = orders.key_by("user").process(Amounts(mended=mended), uid="amounts", on_error=policy)
        amounts.write_json(str(tmp_path / "out"), uid="out")
        env.execute("classes", restore_from=since)

    run("1", mended=False)
    assert json_lines(tmp_path / "out") == [7]
    newest = max((tmp_path / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    run("2", mended=True, since=str(newest))
    assert sorted(json_lines(tmp_path / "out")) == [5, 7, 9]


def parsed(line: str) -> dict[str, int]:
    """What it says of its records is not always true."""
    found: dict[str, int] = json.loads(line)
    return found


@dataclasses.dataclass
class Amount:
    """A record of a class whose fields have not always the type that it says."""

    user: int
    amount: int


def made(line: str) -> Amount:
    return Amount(**json.loads(line))


class Sums(hg.KeyedProcessFunction[int, Any, list[int]]):
    """Emits the running sum of each key's amounts, which may be text once it is `mended`."""

    total: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Iterator[list[int]]:
        amount = record.amount if isinstance(record, Amount) else record["amount"]
        self.total.value = 2 * self.total.value + (int(amount) if self.mended else amount)
        yield [ctx.key, int(amount), self.total.value]


@pytest.mark.parametrize("parse", [parsed, made])
@pytest.mark.parametrize("backend", BACKENDS)
def test_records_of_another_type_than_the_declared_are_held_as_they_are(
    backend: str, parse: Any, tmp_path: Path
) -> None:
    """The bad record and later ones, over checkpoints, a kill and a release; other keys go on."""
    valve = Valve(2_472, 8, range(60))

    def line(n: int) -> str:
        wrong = n in {9, 12, 15}
        return json.dumps({"user": n % 3, "amount": str(n) if wrong else n})

    def killed(result: Any) -> Any:
        if result[1] in {12, 16} and not (tmp_path / f"killed{result[1]}").exists():  # 12 is held
            (tmp_path / f"killed{result[1]}").touch()
            raise OSError("killed")
        return result

    def begun(release: str, *, mended: bool, since: str | None = None) -> hg.JobHandle:
        settings = {**TINY, **RESTART_AT_ONCE, "quarantine.max-share": 1.0, **BACKENDS[backend]}
        env = environment(1, settings)
        env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
        records = env.from_source(valve, uid="in").map(line).map(parse)
        policy = hg.quarantine(hold=50, release=release)
        sums = records.key_by("user").process(Sums(mended=mended), uid="sums", on_error=policy)
        sums.map(killed).write_json(str(tmp_path / "out"), uid="out")
        return env.execute_async("wrong", restore_from=since)

    def results() -> list[list[int]]:
        return sorted(json_lines(tmp_path / "out"))

    answer = []
    for key in range(3):
        total = 0
        for n in range(key, 60, 3):
            total = 2 * total + n
            answer.append([key, n, total])
    handle = begun("1", mended=False)
    wait_until(results, "a checkpoint is complete")
    valve.open_to(40)
    wait_until(lambda: [2, 38] in [each[:2] for each in results()], "a checkpoint has what is held")
    assert results() == sorted(each for each in answer if each[1] < 40 and (each[0] or each[1] < 9))
    savepoint = handle.stop(str(tmp_path / "savepoints"))
    assert handle.result().restarts == 1
    handle = begun("2", mended=True, since=savepoint)
    valve.open_to()
    assert handle.result().restarts == 1
    assert results() == answer


def test_wrong_uses_are_refused_while_the_program_is_written() -> None:
    """In a sentence each."""
    stream = environment(1).from_collection([1])
    with pytest.raises(hg.PlanError, match=r"map\(\) .* which holds records of a key, and has no key"):
        stream.map(str, on_error=hg.quarantine(hold=10, release="1"))
    with pytest.raises(hg.PlanError, match="got hold=0; expected the most records to hold of one key"):
        hg.quarantine(hold=0, release="1")
    with pytest.raises(hg.PlanError, match="got release=''; expected a name"):
        hg.quarantine(hold=10, release="")
    with pytest.raises(hg.PlanError, match=r"hg.skip\(\) .* holds no records"):
        hg.skip(hold=10, release="1")
