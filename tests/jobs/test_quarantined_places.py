"""Records in the quarantine say where they were read, wherever that is known, and only there."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, ListEnumerator, ListReader, environment, json_lines
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.connectors.files.file_formats import json_source
from headgate.serde.codecs.dynamic import decode_tagged

NUMBERS = range(400)


def third(row: Any) -> int:
    """Fails on one in three."""
    n = row["n"] if isinstance(row, dict) else row
    if n % 3 == 0:
        raise ValueError(f"no {n}")
    return n


def files(folder: Path) -> Path:
    """Three files of numbers, some lines of which are no JSON."""
    (folder / "in").mkdir()
    for at, start in enumerate((0, 5, 150)):
        stop = (5, 150, 400)[at]
        each = ["no json\n" * (n % 7 == 0) + json.dumps({"n": n}) for n in range(start, stop)]
        (folder / "in" / f"{at}.jsonl").write_text("\n".join(each) + "\n")
    return folder / "in"


def read_again(source: Any, kept: dict[str, Any]) -> Any:
    """The record at the place that the quarantine names."""
    reader = source.create_reader(hg.SourceReaderContext(kept["source"], 0, 1))
    reader.bad_records = []
    reader.add_splits([hg.Split(kept["split"], json.loads(kept["position"]))])
    found: list[Any] = []
    while len(found) <= kept["skip"]:
        polled = reader.poll(1_000)
        if polled is not hg.NOTHING_AVAILABLE:
            found += polled if isinstance(polled, list) else polled.to_pylist()
    reader.close()
    return found[kept["skip"]]


def kept_of(folder: Path) -> list[dict[str, Any]]:
    return json_lines(folder / "bad")


def run(folder: Path, stream: Any) -> list[dict[str, Any]]:
    stream.write_json(str(folder / "out"), uid="out")
    stream._environment.execute("places")
    return kept_of(folder)


def settings(folder: Path) -> dict[str, Any]:
    wide = {"quarantine.max-share": 1.0, "restart-strategy.type": "none"}
    return {**TINY, **wide, "quarantine.dir": str(folder / "bad")}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_place_is_where_the_record_is(tmp_path: Path, parallelism: int) -> None:
    """Of each that was quarantined, over several small batches and files, with lines that are skipped."""
    env = environment(parallelism, settings(tmp_path))
    pattern = str(files(tmp_path) / "*.jsonl")
    rows = env.read_json(pattern, uid="in", on_error="skip")
    kept = run(tmp_path, rows.map(third, uid="f", on_error=hg.quarantine))
    assert len(kept) == len(range(0, 400, 3))
    assert {each["source"] for each in kept} == {"in"}
    source = json_source(pattern, on_error="skip")
    for each in kept:
        assert read_again(source, each) == decode_tagged(base64.b64decode(each["data"]))


def test_behind_maps_and_event_time_it_is_known_and_behind_what_drops_it_is_not(tmp_path: Path) -> None:
    """A filter that has dropped something, a flat_map, an exchange: no place is better than a wrong one."""
    numbers = [{"n": n} for n in NUMBERS]
    ways = {
        "mapped": (lambda s: s.with_event_time("n").map(lambda row: row["n"]), True),
        "all": (lambda s: s.filter(lambda row: row["n"] >= 0), True),
        "some": (lambda s: s.filter(lambda row: row["n"] % 2 == 0), False),
        "flat": (lambda s: s.flat_map(lambda row: [row]), False),
        "far": (lambda s: s.rebalance(), False),
    }
    for name, (way, known) in ways.items():
        folder = tmp_path / name
        folder.mkdir()
        stream = way(environment(1, settings(folder)).from_collection(numbers, uid="in"))
        kept = run(folder, stream.map(third, uid="f", on_error=hg.quarantine))
        places = [each for each in kept if each["split"] is not None]
        assert len(kept) in (134, 67)
        if known:
            assert len(places) == len(kept)
            assert all(f"{json.loads(each['position']) + each['skip']}" in each["record"] for each in places)
        elif name == "some":
            for each in places:
                assert f"{{'n': {json.loads(each['position']) + each['skip']}}}" == each["record"]
        else:
            assert places == []


class Mixed(hg.Source[Any]):
    """A reader that gives records of several splits at once."""

    splits = (range(50), range(50, 100))

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _Both()

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _MixedReader(self)


class _Both(ListEnumerator):
    def __init__(self) -> None:
        super().__init__([0, 1])

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        found, self.left = self.left, []
        return [hg.Split(str(each)) for each in found] or None


class _MixedReader(ListReader):
    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        found = []
        for split in self.splits:
            found += self.source.splits[int(split[0])][split[1] : split[1] + 3]
            split[1] += 3
        self.splits = [split for split in self.splits if split[1] < 50]
        return found


def test_of_several_splits_at_once_nothing_is_told(tmp_path: Path) -> None:
    """Which of them a record is of, nobody knows."""
    stream = environment(1, settings(tmp_path)).from_source(Mixed(), uid="in")
    kept = run(tmp_path, stream.map(third, uid="f", on_error=hg.quarantine))
    assert len(kept) == 34
    assert {each["split"] for each in kept} == {None}


def test_it_is_shown(tmp_path: Path) -> None:
    """With the record's error; records of an earlier version, without a place, are shown as well."""
    stream = environment(1, settings(tmp_path)).from_collection([1, 2, 3], uid="in")
    run(tmp_path, stream.map(third, uid="f", on_error=hg.quarantine))
    shown = CliRunner().invoke(app, ["quarantine", "show", str(tmp_path / "bad")]).stdout
    assert re.search(r"read by source 'in' from split '0-3', \d after \d\n", shown)
    (file,) = (tmp_path / "bad").rglob("*.jsonl")
    row = json.loads(file.read_text())
    file.write_text(json.dumps({name: row[name] for name in list(row)[:13]}) + "\n")
    shown = CliRunner().invoke(app, ["quarantine", "show", str(tmp_path / "bad")]).stdout
    assert "record 3" in shown
    assert "split" not in shown
