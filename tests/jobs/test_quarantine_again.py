"""Records of a quarantine are tried again, fed to the next version of a program, or discarded."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve, wait_until
from typer.testing import CliRunner

import headgate as hg
from headgate.api.on_error import Quarantined
from headgate.cli.main import app
from headgate.connectors.files import file_names
from headgate.connectors.quarantine.quarantine_source import quarantine_source
from headgate.connectors.quarantine.quarantined_records import Kept, kept_in
from headgate.serde.codecs.dynamic import as_plain
from headgate.testing import simulate

PROGRAM = str(Path(__file__).with_name("quarantined_program.py"))
ORDERS = [
    {"n": n, "user": "abc"[n % 3], "amount": None if n == 17 else str(n) if n % 10 == 4 else n}
    for n in range(60)
]
TEXTS = [order for order in ORDERS if isinstance(order["amount"], str)]


def test_what_is_read_has_the_fields_that_are_written() -> None:
    """A field of `Quarantined` that is not read would be lost on the way through a quarantine."""
    read = {each.name: each.type for each in msgspec.structs.fields(Kept)}
    written = get_type_hints(Quarantined)
    assert {name: read[name] for name in written} == written


def ran(folder: Path, *options: str, **variables: str) -> None:
    """Run the program under the command."""
    command = [sys.executable, "-c", "from headgate.cli.main import main; main()", "run", *options, PROGRAM]
    variables = {**os.environ, "FOLDER": str(folder), **variables}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def command(*arguments: str) -> tuple[int, Any]:
    """Exit code and answer, as machines get it."""
    result = CliRunner().invoke(app, ["quarantine", *arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def begun(folder: Path, *options: str, **variables: str) -> Path:
    """The folder of a program whose first version has run to its end."""
    (folder / "orders").mkdir()
    (folder / "orders" / "all.jsonl").write_text("".join(json.dumps(order) + "\n" for order in ORDERS))
    ran(folder, *options, **variables)
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In one subtask, with state in memory."""
    return begun(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In two, with state in RocksDB."""
    options = ("-D", "state.backend.type=rocksdb")
    return begun(tmp_path_factory.mktemp("wide"), *options, PARALLELISM="2")


def newest_checkpoint(folder: Path) -> str:
    return str(max((folder / "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:])))


def of_totals(folder: Path) -> list[Kept]:
    return list(kept_in(folder / "quarantine", "totals"))


@pytest.mark.parametrize("where", ["first", "wide"])
def test_replays_say_what_succeeds_now(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the state of each key, one record after the other; the first version fails again on all."""
    first: Path = request.getfixturevalue(where)
    monkeypatch.setenv("FOLDER", str(first))
    replay = ("replay", PROGRAM, "--quarantine", str(first / "quarantine"), "--uid", "totals")
    replay = (*replay, "--from", newest_checkpoint(first))
    code, found = command(*replay)
    assert code == 3
    assert {each["error"].partition(":")[0] for each in found["records"]} == {"TypeError"}
    assert [each["changes"] for each in found["records"]] == [[]] * len(found["records"])
    monkeypatch.setenv("MENDED", "1")
    code, found = command(*replay)
    assert code == 3
    (failing,) = (each for each in found["records"] if each["error"])
    assert (failing["record"], failing["output"]) == (repr(ORDERS[17]), [])
    totals = {
        user: sum(o["amount"] for o in ORDERS if o["user"] == user and isinstance(o["amount"], int))
        for user in "abc"
    }
    for each in found["records"]:
        if not each["error"]:
            order = next(order for order in TEXTS if repr(order) == each["record"])
            before = totals[order["user"]]
            totals[order["user"]] += int(order["amount"])
            assert each["output"] == [repr([order["n"], order["user"], totals[order["user"]]])]
            assert each["side_output"] == [["seen", order["amount"]]]
            change = {"state": "total", "before": str(before), "after": str(totals[order["user"]])}
            assert each["changes"] == [change]
    good = next(each["id"] for each in found["records"] if not each["error"])
    code, found = command(*replay, "--id", good)
    assert (code, [each["id"] for each in found["records"]]) == (0, [good])
    assert len(json_lines(first / "out")) == len(ORDERS) - len(TEXTS) - 1


def test_functions_without_keys_need_no_snapshot(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are called; keyed ones are refused without one, and so is what is no operator."""
    monkeypatch.setenv("FOLDER", str(first))
    monkeypatch.setenv("MENDED", "1")
    replay = ("replay", PROGRAM, "--quarantine", str(first / "quarantine"), "--uid")
    code, found = command(*replay, "half")
    assert code == 0
    assert [each["output"] for each in found["records"]] == [
        [repr([order["n"], int(order["amount"] or 0) / 2])]
        for order in ORDERS
        if not isinstance(order["amount"], int)
    ]
    code, found = command(*replay, "totals")
    assert (code, "has state by key; give the checkpoint" in found["error"]["message"]) == (2, True)
    shown = CliRunner().invoke(app, ["quarantine", *replay, "half"]).stdout
    assert shown.endswith("7 succeed, 0 fail again, 0 were left out\n")


def test_the_next_version_gets_them_once(first: Path, tmp_path: Path) -> None:
    """It goes on from the checkpoint, reads the quarantine before the operator, and ends where a program
    without the mistake had ended; what was discarded does not come.
    """
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(first), str(folder)], check=True)
    (none,) = (each for each in of_totals(folder) if each.record == repr(ORDERS[17]))
    assert command("discard", str(folder / "quarantine"), "--id", none.id) == (0, {"discarded": [none.id]})
    before = len(json_lines(folder / "out"))
    ran(folder, "--from", newest_checkpoint(first), MENDED="1", AGAIN="1")
    found = json_lines(folder / "out")
    assert len(found) == len(ORDERS) - 1
    assert sorted(n for n, _, _ in found[before:]) == [order["n"] for order in TEXTS]
    last = {user: total for _, user, total in sorted(found[before:], key=lambda row: row[0])}
    assert last == {
        user: sum(int(o["amount"]) for o in ORDERS if o["user"] == user and o["amount"] is not None)
        for user in "abc"
    }


def test_exactly_what_was_chosen_is_discarded(first: Path, tmp_path: Path) -> None:
    """By id, operator or all; files stay as they are, and `list --all` has everything."""
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(first), str(folder)], check=True)
    place = str(folder / "quarantine")
    files = {path: path.read_bytes() for path in (folder / "quarantine").rglob("*.jsonl")}
    every = [each.id for each in kept_in(folder / "quarantine")]
    assert len(set(every)) == len(every) == 14
    one, two = (each.id for each in of_totals(folder)[:2])
    assert command("discard", place, "--id", one, "--id", two)[1] == {"discarded": [one, two]}
    assert command("discard", place, "--id", two)[1] == {"discarded": []}
    left = {each["id"] for each in command("show", place, "--last", "100")[1]["records"]}
    assert left == {*every} - {one, two}
    assert command("discard", place, "--uid", "totals")[0] == 0
    assert {each["operator"] for each in command("list", place)[1]["quarantined"]} == {"half"}
    everything = command("list", place, "--all")[1]["quarantined"]
    assert {(each["operator"], each["state"]): each["records"] for each in everything} == {
        ("half", "open"): 7, ("totals", "discarded"): 7,
    }  # fmt: skip
    assert len(command("show", place, "--all", "--last", "100")[1]["records"]) == 14
    assert command("discard", place)[0] == 2
    assert command("discard", place, "--id", "none")[0] == 2
    assert command("discard", place, "--everything")[0] == 0
    assert command("list", place)[1] == {"quarantined": []}
    assert {path: path.read_bytes() for path in (folder / "quarantine").rglob("*.jsonl")} == files


def test_what_is_not_committed_yet_does_not_count(tmp_path: Path) -> None:
    """A running job prepares its files below `_pending`; and damage is named."""
    bad = filled(tmp_path, 8)
    count = len(list(kept_in(bad)))
    (file, *_) = sorted(bad.rglob("*.jsonl"))
    for folder in (file_names.PENDING, file_names.TAKEN_BACK):
        part = file.parent / folder / "job" / file.name
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(file.read_bytes()[:20])
    assert (count, len(list(kept_in(bad)))) == (8, 8)
    file.write_bytes(file.read_bytes() + b"{")
    with pytest.raises(hg.StorageError, match="line 3, is no quarantined record"):
        list(kept_in(bad))


def test_a_replay_shows_no_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of records and errors, which a terminal would obey."""
    program = tmp_path / "job.py"
    program.write_text(HOSTILE)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    replay = ["quarantine", "replay", str(program), "--quarantine", str(tmp_path / "bad"), "--uid", "f"]
    result = CliRunner().invoke(app, replay)
    assert result.exit_code == 3
    assert "fails again: ValueError: \\x1b[31mno" in result.stdout
    assert "\x1b" not in result.stdout


HOSTILE = """
import os
import headgate as hg

def fails(record):
    raise ValueError(chr(27) + "[31mno")

folder = os.environ["FOLDER"]
env = hg.Environment(parallelism=1, executor="mini-cluster", config={"quarantine.dir": folder + "/bad"})
texts = env.from_collection([chr(27) + "[2J"], uid="in")
texts.map(fails, uid="f", on_error=hg.quarantine).write_json(folder + "/out", uid="out")
env.execute("hostile")
"""


class Order(NamedTuple):
    """A record of a class."""

    n: int
    tags: list[str]


@dataclasses.dataclass
class Parcel:
    """Another."""

    n: int
    order: Order


def failing(record: Any) -> Any:
    raise ValueError("never")


@pytest.mark.parametrize("kind", [Order, Parcel])
def test_records_of_classes_come_back_as_such(tmp_path: Path, kind: type) -> None:
    """Where the class is given; else as plain values."""
    made = [Order(n, [str(n)]) if kind is Order else Parcel(n, Order(n, ["x"])) for n in range(5)]
    env = environment(1, {"quarantine.dir": str(tmp_path / "bad"), "quarantine.max-share": 1.0})
    env.from_collection(made).map(failing, uid="f", on_error=hg.quarantine).write_json(str(tmp_path / "out"))
    env.execute("classes")
    env = environment(1)
    assert env.from_quarantine(tmp_path / "bad", schema=kind, uid="again").collect() == made
    plain = env.from_quarantine(tmp_path / "bad", operator="f", uid="plain").collect()
    assert plain == [as_plain(each) for each in made]


def test_held_records_are_replayed_with_the_state_that_they_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later record has changed it; what the operator holds is left alone."""
    folder = begun(tmp_path, RELEASE="1")
    monkeypatch.setenv("FOLDER", str(folder))
    monkeypatch.setenv("RELEASE", "1")
    monkeypatch.setenv("MENDED", "1")
    replay = ("replay", PROGRAM, "--quarantine", str(folder / "quarantine"), "--uid", "totals")
    code, found = command(*replay, "--from", newest_checkpoint(folder))
    assert (code, len(found["records"])) == (0, 3)
    for each in found["records"]:
        bad = next(order for order in ORDERS if repr(order) == each["record"])
        before = sum(o["amount"] for o in ORDERS[: bad["n"]] if o["user"] == bad["user"])
        change = {"state": "total", "before": str(before), "after": str(before + int(bad["amount"]))}
        assert each["changes"] == [change]
    ran(folder, "--from", newest_checkpoint(folder), RELEASE="2", MENDED="1")
    assert [each.record for each in of_totals(folder)][3:] == [repr(ORDERS[17])]  # it fails in both
    out = sorted(row[0] for row in json_lines(folder / "out"))
    assert out == [order["n"] for order in ORDERS if order["user"] != "c" or order["n"] < 17]


def filled(folder: Path, records: int) -> Path:
    """A quarantine of several files."""
    for file in range(4):
        env = environment(1, {"quarantine.dir": str(folder / "bad"), "quarantine.max-share": 1.0})
        numbers = env.from_collection(range(file, records, 4))
        numbers.map(failing, uid="f", on_error=hg.quarantine).write_json(str(folder / "out"))
        env.execute("filled")
    return folder / "bad"


@pytest.mark.parametrize("name", ["_job", ".job", "team/job", "job"])
def test_names_may_begin_as_those_of_hidden_files_do(tmp_path: Path, name: str) -> None:
    """Such records are listed, and fed again; the job has its name wherever one looks from."""
    bad = tmp_path / "bad"
    env = environment(1, {"quarantine.dir": str(bad), "quarantine.max-share": 1.0})
    for uid in ("_f", ".g", "h"):
        numbers = env.from_collection([uid], uid=f"in{uid}").map(failing, uid=uid, on_error=hg.quarantine)
        numbers.write_json(str(tmp_path / "out" / uid), uid=f"out{uid}")
    env.execute(name)
    assert {each.operator for each in kept_in(bad)} == {"_f", ".g", "h"}
    assert sorted(environment(1).from_quarantine(bad, uid="again").collect()) == [".g", "_f", "h"]
    of_job = bad / name.replace("/", "%2F")
    for place in (bad, of_job, of_job / "h", of_job / "h" / ".."):
        found = command("list", str(place), "--job", name, "--uid", "h")[1]["quarantined"]
        assert [(each["job"], each["records"]) for each in found] == [(name, 1)]
        assert command("list", str(place), "--job", "other")[1] == {"quarantined": []}


def test_the_next_lot_is_what_came_after_the_first(tmp_path: Path) -> None:
    """Where the source of the first one stays, and the ids that were in the first are discarded."""
    bad, out, other = filled(tmp_path, 8), tmp_path / "again", Valve(239, 0, [-1])
    place, savepoints = str(bad), str(tmp_path / "savepoints")

    def begun(*uids: str, since: str | None = None) -> hg.JobHandle:
        env = environment(1, TINY)
        env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
        lots = [env.from_quarantine(bad, uid=uid) for uid in uids]
        stream = env.from_source(other, uid="other").union(*lots)
        stream.write_json(str(out), uid="out")
        return env.execute_async("lots", restore_from=since)

    lot = [each["id"] for each in command("show", place, "--last", "100")[1]["records"]]
    job = begun("again")
    wait_until(lambda: len(json_lines(out)) == len(lot) == 8, "the lot is read")
    filled(tmp_path, 12)
    savepoint = job.stop(savepoints)
    with pytest.raises(hg.UsageError, match="holds splits of 'again'"):
        begun("again-2", since=savepoint).result()
    command("discard", place, *(f"--id={each}" for each in lot))
    other.open_to()
    begun("again", "again-2", since=savepoint).result()
    assert sorted(json_lines(out)) == sorted([-1, *range(8), *range(12)])


def test_under_faults_each_comes_once_and_in_order(tmp_path: Path) -> None:
    """In the simulator, with processes and drivers that die."""
    bad = filled(tmp_path, 120)

    class InOrder(hg.KeyedProcessFunction[int, int, Any]):
        """Tells the number before each."""

        last: hg.ValueState[int] = hg.value_state(default=-1)

        def process(self, n: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
            yield self.last.value, n
            self.last.value = n

    def build(env: hg.Environment) -> None:
        again = env.from_quarantine(bad, operator="f", uid="again")
        again.key_by(lambda n: n % 4).process(InOrder(), uid="order").collect_later(uid="out")

    expected = [(n - 4 if n >= 4 else -1, n) for n in range(120)]
    report = simulate(build, seeds=range(8), expected={"out": expected})
    assert report.restarts > 0


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    """Records that fail once fail the attempt here; none comes twice."""
    bad, failed = filled(tmp_path, 40), tmp_path / "failed"

    def once(n: int) -> int:
        if n == 30 and not failed.exists():
            failed.touch()
            raise OSError("once")
        return n

    env = environment(1, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    env.from_quarantine(bad, uid="again").map(once, uid="once").write_json(str(tmp_path / "again"), uid="out")
    assert env.execute("restarted").restarts == 1
    assert sorted(json_lines(tmp_path / "again")) == list(range(40))


def test_what_cannot_be_read_again_is_named(tmp_path: Path) -> None:
    """A folder that is not there, a record without a form, a place outside of the folder."""
    with pytest.raises(hg.UsageError, match="there is no folder"):
        environment(1).from_quarantine(tmp_path / "none", uid="again").collect()
    bad = filled(tmp_path, 8)
    source = quarantine_source(bad)
    with pytest.raises(hg.UsageError, match="was still to be read, and is not there"):
        source.check_restore(["filled/f/part-none.jsonl"], [])
    with pytest.raises(hg.StorageError, match="not in"):
        source.check_restore(None, [hg.Split("../part-0.jsonl", 3)])
    (file, *_) = sorted(bad.rglob("*.jsonl"))
    rows = [json.loads(line) | {"data": None} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = environment(1, {"restart-strategy.type": "none"})
    with pytest.raises(hg.HeadgateError, match="of a type that has no stored form"):
        env.from_quarantine(bad, uid="again").collect()
