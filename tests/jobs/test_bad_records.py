"""Jobs that go on without records on which a function fails: what these did is undone, and they are kept."""

from __future__ import annotations

import base64
import doctest
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.connectors.quarantine.quarantined_records import kept_in
from headgate.serde.codecs.dynamic import decode_tagged
from headgate.testing import MiniCluster, simulate

BAD = {3, 40, 41, 77}
NUMBERS = range(100)
FIRST_RANG = Path("rang")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "bad-records.md"


def inverse(n: int) -> int:
    """Fails on some numbers."""
    if n in BAD:
        raise ValueError(f"no {n}")
    return -n


@pytest.mark.parametrize("parallelism", [1, 2])
def test_records_are_skipped_and_the_others_are_not(parallelism: int) -> None:
    """By words or constants."""
    for word in (hg.skip, "skip"):
        found = environment(parallelism).from_collection(NUMBERS).map(inverse, on_error=word).collect()
        assert sorted(found) == sorted(-n for n in NUMBERS if n not in BAD)


def test_filters_and_flat_maps_leave_nothing_behind_of_a_record_that_fails() -> None:
    """Of a generator that fails half way, what came before it is left out."""

    def twice(n: int) -> Iterator[int]:
        yield n
        inverse(n)
        yield n

    stream = environment(1).from_collection(NUMBERS)
    found = stream.flat_map(twice, on_error=hg.skip).filter(lambda n: inverse(n) < -90, on_error=hg.skip)
    assert Counter(found.collect()) == dict.fromkeys(range(91, 100), 2)


def test_a_function_decides(tmp_path: Path) -> None:
    """It sees the record, the error and the time."""
    seen = tmp_path / "seen"

    def decides(call: hg.FailedCall) -> hg.OnError:
        with seen.open("a") as file:
            print(call.record, call.timestamp, call.key, call.timer, repr(call.error), sep="|", file=file)
        return hg.skip if call.record < 50 else hg.fail

    env = environment(1, {"restart-strategy.type": "none"})
    stream = env.from_collection([{"n": n} for n in NUMBERS]).with_event_time("n").map(lambda row: row["n"])
    with pytest.raises(hg.UserFunctionError, match="no 77"):
        stream.map(inverse, uid="f", on_error=decides).collect()
    assert seen.read_text().splitlines() == [
        f"{n}|{n}|None|False|ValueError('no {n}')" for n in (3, 40, 41, 77)
    ]


class Sums(hg.KeyedProcessFunction[int, int, Any]):
    """Adds up in every kind of state, registers timers, and then fails on some records."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    names: hg.ValueState[list[int]] = hg.value_state(default_factory=list)
    seen: hg.ListState[int] = hg.list_state()
    places: hg.MapState[int, int] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)

    def process(self, n: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        self.total.value += n
        self.names.value.append(n)
        self.seen.add(n)
        self.places.put(n, n)
        self.places.remove(n - 20)
        self.most.add(n)
        ctx.timers.register_event_time(1_000 + n)
        ctx.side_output(hg.OutputTag("beside"), n)
        yield "early", n
        inverse(n)
        yield (
            ctx.key,
            self.total.value,
            len(self.names.value),
            len(self.seen.get()),
            len(self.places),
            self.most.get(),
        )

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp - 1_000, self.total.value
        self.total.value += 1
        if timestamp - 1_000 == 50:
            raise KeyError("a timer")


def answer(numbers: range, bad: set[int]) -> list[Any]:
    """What the function gives for the good records alone."""
    out: list[Any] = []
    good: dict[int, list[int]] = {}
    for n in numbers:
        if n not in bad:
            mine = good.setdefault(n % 5, [])
            mine.append(n)
            places = {each for each in mine if each + 20 not in mine}
            out += [("early", n), (n % 5, sum(mine), len(mine), len(mine), len(places), max(mine))]
    totals = {key: sum(mine) for key, mine in good.items()}
    for n in sorted(n for mine in good.values() for n in mine):
        if n != 50:
            out.append(("timer", n, totals[n % 5]))
            totals[n % 5] += 1
    return out


BACKENDS = {
    "heap": {},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "changelog": {"state.changelog.enabled": True},
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_failing_call_has_done_is_undone(backend: str, tmp_path: Path) -> None:
    """In all kinds of state, timers, outputs and side outputs; also of a timer that fails."""
    env = environment(1, {**TINY, **BACKENDS[backend], "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    rows = env.from_collection([{"n": n} for n in NUMBERS], uid="in")
    rows = rows.with_event_time("n").map(lambda row: row["n"])
    sums = rows.key_by(lambda n: n % 5).process(Sums(), uid="sums", on_error=hg.quarantine)
    sums.write_json(str(tmp_path / "out"), uid="out")
    sums.side_output(hg.OutputTag("beside")).write_json(str(tmp_path / "beside"), uid="beside")
    env.execute("undone")
    got = [tuple(row) for row in json_lines(tmp_path / "out")]
    assert Counter(got) == Counter(answer(NUMBERS, BAD))
    assert sorted(json_lines(tmp_path / "beside")) == [n for n in NUMBERS if n not in BAD]
    kept = json_lines(tmp_path / "checkpoints" / "quarantine" / "undone" / "sums")
    assert {row["record"] for row in kept if not row["timer"]} == set(map(str, BAD))
    (timer,) = (row for row in kept if row["timer"])
    assert (timer["kind"], timer["key"], timer["timestamp"]) == ("KeyError", "0", 1_050)
    of_three = next(row for row in kept if row["record"] == "3")
    assert (of_three["message"], of_three["operator"], of_three["timestamp"]) == ("no 3", "sums", 3)
    assert of_three["line"].endswith(f"test_bad_records.py:{inverse.__code__.co_firstlineno + 3}")
    assert decode_tagged(base64.b64decode(of_three["data"])) == 3


class Alarmed(hg.KeyedProcessFunction[int, int, int]):
    """Has a timer of the wall clock that fails, and one after it."""

    rung: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, n: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        for later in (1, 2):
            ctx.timers.register_processing_time(ctx.timers.now_ms() + later)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        self.rung.value += 1
        ctx.timers.register_processing_time(timestamp + 1_000_000)
        if not FIRST_RANG.exists():
            FIRST_RANG.touch()
            raise ValueError("the first")
        yield self.rung.value


def test_a_timer_of_the_wall_clock_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did to state is undone; its record in the quarantine has no event time where there is none."""
    monkeypatch.setattr(sys.modules[__name__], "FIRST_RANG", tmp_path / "rang")
    valve = Valve(9_990, 1, [5, 6])
    env = environment(1, TINY)
    alarmed = (
        env.from_source(valve, uid="in")
        .key_by(lambda n: 0)
        .process(Alarmed(), uid="a", on_error=hg.quarantine)
    )
    errors, found = alarmed.side_output(hg.ERRORS).collect_later(), alarmed.collect_later()
    with env.execute_async("alarmed") as handle:
        wait_until(lambda: (tmp_path / "rang").exists(), "it rings")
        time.sleep(0.05)
        valve.open_to()
        handle.result()
    (error,) = errors.records
    assert (error.timer, error.kind, error.record) == (True, "ValueError", None)
    assert found.records[0] == 1


def test_the_quarantine_is_looked_at(tmp_path: Path) -> None:
    """By operator and error, and one by one; control characters of a record do no harm."""
    env = environment(1, {"quarantine.dir": str(tmp_path / "bad")})
    texts = env.from_collection(["1", "\x1b[31mtwo", "x" * 20_000]).map(int, uid="f", on_error=hg.quarantine)
    texts.write_json(str(tmp_path / "out"), uid="out")
    env.execute("looked at")
    runner = CliRunner()
    listed = runner.invoke(app, ["quarantine", "list", str(tmp_path / "bad")]).stdout
    assert re.search(r"looked at +f +ValueError .* 2$", listed.splitlines()[-1])
    shown = runner.invoke(app, ["quarantine", "show", str(tmp_path / "bad"), "--uid", "f"]).stdout
    assert "\\x1b[31mtwo" in shown
    assert "\x1b" not in shown
    facts = json.loads(
        runner.invoke(app, ["quarantine", "show", str(tmp_path / "bad"), "--last", "1", "--json"]).stdout
    )
    assert facts["records"][0]["job"] == "looked at"
    assert runner.invoke(app, ["quarantine", "list", str(tmp_path / "none")]).exit_code == 2
    other = runner.invoke(app, ["quarantine", "list", str(tmp_path / "bad"), "--job", "another"]).stdout
    assert other.startswith("nothing is quarantined in ")


class Halves:
    """A key whose text no encoding takes."""

    def __repr__(self) -> str:
        return "\udc80"


def halved(text: str) -> str:
    """Fails with a half of a character, as a name of a file may have one."""
    raise ValueError(f"bad {text}")


def test_texts_that_no_encoding_takes_are_quarantined(tmp_path: Path) -> None:
    """In the error, in the record and in its repr; the job goes on."""
    env = environment(1, {"quarantine.dir": str(tmp_path / "bad")})
    env.from_collection(["\udc80", "b"]).map(halved, uid="f", on_error=hg.quarantine).print()
    env.from_collection([1]).map(lambda n: Halves(), uid="made").map(
        lambda made: halved(repr(made)), uid="g", on_error=hg.quarantine
    ).print()
    env.execute("halves")
    found = list(kept_in(tmp_path / "bad", job="halves"))
    assert sorted(each.message for each in found) == ["bad \\udc80", "bad \\udc80", "bad b"]
    assert sorted(str(each.record) for each in found) == ["'\\udc80'", "'b'", "\\udc80"]


@pytest.mark.parametrize("name", ["..", "../../etc", "/etc/sums", "a/b", ".", "a\\b", "50%25"])
def test_a_name_does_not_lead_out_of_the_quarantine(name: str, tmp_path: Path) -> None:
    """Neither that of a job nor that of an operator; the records are found by both."""
    folder = tmp_path / "deep" / "bad"
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config={"quarantine.dir": str(folder)})
    numbers = env.from_collection(["1", "x"]).map(float, uid="number", on_error=hg.quarantine)
    numbers.map(str, uid="..", on_error=hg.quarantine).print()
    env.execute(name)
    assert all(path.is_relative_to(folder) for path in tmp_path.rglob("*") if path.is_file())
    (job,) = folder.iterdir()
    assert len(list(job.iterdir())) == 2
    assert [each.record for each in kept_in(folder, job=name)] == ["'x'"]


@pytest.mark.parametrize("config", [{}, {"execution.checkpointing.unaligned.enabled": True}])
def test_under_faults_the_answer_is_that_of_the_good_records(config: dict[str, Any]) -> None:
    """In the simulator, with processes and drivers that die; the bad ones are kept once each."""

    def build(env: hg.Environment) -> None:
        timed = env.from_collection(NUMBERS, uid="in").with_event_time(lambda n: n)
        sums = timed.key_by(lambda n: n % 5).process(Sums(), uid="sums", on_error=hg.quarantine)
        sums.collect_later(uid="out")
        bad = sums.side_output(hg.ERRORS).map(
            lambda each: (each.record, each.kind, each.timestamp), uid="bad"
        )
        bad.collect_later(uid="kept")

    kept = [(str(n), "ValueError", n) for n in BAD] + [(None, "KeyError", 1_050)]
    report = simulate(
        build, seeds=range(8), config=config, expected={"out": answer(NUMBERS, BAD), "kept": kept}
    )
    assert report.restarts > 0


def test_the_program_may_read_what_is_quarantined(tmp_path: Path) -> None:
    """Then nothing is written elsewhere, and no folder is needed."""
    env = environment(2)
    mapped = env.from_collection(NUMBERS).map(inverse, uid="f", on_error=hg.quarantine)
    errors = mapped.side_output(hg.ERRORS).map(lambda bad: (bad.operator, bad.record, bad.kind))
    mapped.write_json(str(tmp_path / "out"), uid="out")
    found = errors.collect_later()
    env.execute("read")
    assert sorted(found.records) == sorted(("f", str(n), "ValueError") for n in BAD)
    assert sorted(json_lines(tmp_path / "out")) == sorted(-n for n in NUMBERS if n not in BAD)


def test_each_is_kept_once_though_the_job_fails_in_between(tmp_path: Path) -> None:
    """The quarantine is committed with the checkpoints."""
    failed = tmp_path / "failed"

    def once(n: int) -> int:
        if n == 60 and not failed.exists():
            failed.touch()
            raise OSError("once")
        return inverse(n)

    def decides(call: hg.FailedCall) -> hg.OnError:
        return hg.fail if isinstance(call.error, OSError) else hg.quarantine

    env = environment(1, TINY)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    env.from_collection(NUMBERS, uid="in").map(once, uid="f", on_error=decides).write_json(
        str(tmp_path / "out"), uid="out"
    )
    result = env.execute("once")
    assert result.restarts == 1
    assert sorted(json_lines(tmp_path / "out")) == sorted(-n for n in NUMBERS if n not in BAD)
    kept = [row["record"] for row in json_lines(tmp_path / "checkpoints" / "quarantine" / "once" / "f")]
    assert sorted(kept) == sorted(map(str, BAD))


@pytest.mark.parametrize(
    ("setting", "before"), [({"quarantine.max-records": 3}, 0), ({"quarantine.max-share": 0.0003}, 10_000)]
)
def test_too_many_fail_the_job(setting: dict[str, Any], before: int) -> None:
    """In number, or as a share of all."""
    env = environment(1, {**setting, "restart-strategy.type": "none"})
    numbers = [*range(1_000, 1_000 + before), *NUMBERS]
    with pytest.raises(hg.UserFunctionError, match="no 77"):
        env.from_collection(numbers).map(inverse, on_error=hg.skip).collect()


def test_what_cannot_be_undone_or_is_no_word_is_refused() -> None:
    """While the program is written."""

    class Kept(hg.ProcessFunction[int, int]):
        """Has operator state."""

        numbers: hg.OperatorListState[int] = hg.operator_list_state()

        def process(self, record: int, ctx: Any) -> Iterator[int]:
            yield record

    stream = environment(1).from_collection(NUMBERS)
    with pytest.raises(hg.PlanError, match=r"got on_error for Kept, which has operator state"):
        stream.process(Kept(), on_error=hg.skip)
    with pytest.raises(hg.PlanError, match=r"got on_error='ignore'; expected hg\.fail, hg\.skip"):
        stream.map(inverse, on_error="ignore")
    with pytest.raises(hg.PlanError, match="may quarantine records, and there is no folder for them"):
        stream.map(inverse, on_error=hg.quarantine).print()
        stream._environment.plan()


def test_errors_that_are_not_about_the_record_fail_as_ever() -> None:
    """A lost process is no bad record."""

    def ends(n: int) -> int:
        raise KeyboardInterrupt

    env = environment(1, {"restart-strategy.type": "none"})
    with pytest.raises(hg.UserFunctionError, match="raised KeyboardInterrupt"):
        env.from_collection([1]).map(ends, on_error=hg.skip).collect()


def test_examples_of_the_page_are_true() -> None:
    """Each prints what the page says."""
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 12
    assert failed == 0


def test_json_is_what_is_kept() -> None:
    """Every field has a form in JSON."""
    assert json.loads(json.dumps(hg.Quarantined(*range(17))._asdict()))["data"] == 12
