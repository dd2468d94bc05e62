"""Paths in stored bytes come from strangers: no connector moves, reads or removes a file of others."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.api.sink import Fork, Lineage, SinkCommitterContext, SinkWriterContext
from headgate.api.source import SourceReaderContext, Split
from headgate.common.errors import PlanError, StrayPathError, UsageError, restart_may_help
from headgate.connectors.dataframe.source import DataFrameReader, Staged
from headgate.connectors.dataframe.stream_log import lay_out
from headgate.connectors.dataframe.to_spark import spark_sink
from headgate.connectors.dataframe.writers.parquet import parquet
from headgate.connectors.dataframe.writers.writer_contract import SparkEpoch
from headgate.connectors.files import json_sink, json_source

SAVEPOINT = Fork("job", 1, 1, 7)
CONTEXT = SinkCommitterContext("out", "job", 1, Lineage("job"))

STRAY = [
    "../secret",
    "_pending/../../secret",
    "_pending/job+out/../../../secret",
    "",
    ".",
    "/",
    "a//b",
    "a\0b",
    3,
]


def stray(found: pytest.ExceptionInfo[StrayPathError]) -> None:
    """It names what was stored, and no other attempt is made of it."""
    assert "stored as" in str(found.value)
    assert "nothing was done with it" in str(found.value)
    assert not restart_may_help(found.value)


def everything(folder: Path) -> dict[str, str]:
    """All files, with what is in them."""
    return {str(p.relative_to(folder)): p.read_text("latin-1") for p in folder.rglob("*") if p.is_file()}


class Output:
    """A files sink with one prepared record, and a secret beside it."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "out"
        (tmp_path / "secret").write_text('{"n":1}\n')
        sink = json_sink(self.root)
        writer = sink.create_writer(SinkWriterContext("out", 0, 1, 1, "job", 1), [])
        writer.write([{"n": 1}])
        (ready,) = writer.prepare_commit_at(7)
        self.ready: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(ready))
        self.committer = sink.create_committer()
        self.committer.begin(SinkCommitterContext("out", "job", 1, Lineage("job")))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    """With one prepared record."""
    return Output(tmp_path)


@pytest.mark.parametrize("doing", ["commit", "hold", "release", "abandon", "check_restore"])
@pytest.mark.parametrize("name", [*STRAY, "part-1", "_headgate/x/000001.json", "_pending", "_pending/a"])
def test_a_prepared_file_elsewhere_is_not_touched(
    output: Output, tmp_path: Path, doing: str, name: Any
) -> None:
    """Whatever the committer is to do with it; an absolute name is none either."""
    before = everything(tmp_path)
    crafted = {**output.ready, "pending": str(tmp_path / "secret") if name == "/" else name}
    calls = {
        "commit": lambda: output.committer.commit([crafted]),
        "hold": lambda: output.committer.hold([crafted], SAVEPOINT),
        "release": lambda: output.committer.release([crafted], SAVEPOINT),
        "abandon": lambda: output.committer.abandon([crafted]),
        "check_restore": lambda: output.committer.check_restore(CONTEXT, [crafted], False),
    }
    with pytest.raises(StrayPathError) as found:
        calls[doing]()
    stray(found)
    assert {name: text for name, text in everything(tmp_path).items() if "_headgate" not in name} == before


def test_nothing_is_published_along_with_a_prepared_file_elsewhere(output: Output, tmp_path: Path) -> None:
    """All names are looked at before the first file is published, and before the job owns the output."""
    before = everything(tmp_path)
    with pytest.raises(StrayPathError):
        output.committer.commit([output.ready, {**output.ready, "pending": "../secret"}])
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", [*STRAY, "_pending/x", "_headgate/x", "sub/part-1", ".hidden", "_x"])
def test_nothing_is_published_elsewhere(output: Output, tmp_path: Path, name: Any) -> None:
    """Neither outside the output directory, nor where readers and Headgate itself keep other things."""
    crafted = {**output.ready, "final": str(tmp_path / "new") if name == "/" else name}
    with pytest.raises(StrayPathError) as found:
        output.committer.commit([crafted])
    stray(found)
    with pytest.raises(StrayPathError) as found:
        output.committer.check_restore(CONTEXT, [crafted], False)
    stray(found)
    assert (output.root / output.ready["pending"]).exists()
    assert not (tmp_path / "new").exists()
    output.committer.commit([output.ready])
    assert [path.read_text() for path in output.root.glob("part-*")] == ['{"n":1}\n']


def test_a_link_does_not_lead_out_of_the_output(output: Output, tmp_path: Path) -> None:
    """Neither a folder of prepared files, nor such a file, nor a published one may be a link to elsewhere."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "part-1").write_text('{"n":1}\n')
    (output.root / "_pending" / "link").symlink_to(other)
    (output.root / "_pending" / "job+out" / "part-2").symlink_to(tmp_path / "secret")
    (output.root / "part-3").symlink_to(tmp_path / "secret")
    crafted = [
        {**output.ready, "pending": "_pending/link/part-1"},
        {**output.ready, "pending": "_pending/job+out/part-2"},
        {**output.ready, "final": "part-3"},
    ]
    for ready in crafted:
        with pytest.raises(StrayPathError, match="symbolic link leads out of"):
            output.committer.commit([ready])
    assert (other / "part-1").exists()
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize("linked", ["_pending", "_pending/job+out", "_headgate", "_taken_back"])
@pytest.mark.parametrize("doing", ["abandon", "commit", "take back", "write"])
def test_a_folder_of_headgates_own_that_is_a_link_is_left_alone(
    tmp_path: Path, linked: str, doing: str
) -> None:
    """Whoever may write to the output could have the driver remove, move or write the files of others."""
    output = Output(tmp_path)
    victim = tmp_path / "victim"
    for folder in (victim, victim / "job+out", victim / "job"):
        folder.mkdir()
        (folder / "thesis").write_text("mine")
        (folder / "000001.json").write_text("mine too")
    place = output.root / linked
    if place.exists():
        shutil.move(place, tmp_path / "moved")
    place.symlink_to(victim)
    before = everything(victim)
    older = Fork("job", 1, 1, 3)
    published = output.root / "part-job+out+00000-1.1-9-c9.json"
    published.write_text("newer")
    committer = json_sink(output.root).create_committer()
    context = SinkCommitterContext("out", "next", 1, Lineage("job", (older,)))
    with suppress(StrayPathError):
        if doing == "abandon":
            output.committer.abandon([])
        elif doing == "commit":
            output.committer.commit([output.ready])
        elif doing == "take back":
            committer.take_back(context)
        else:
            writer = json_sink(output.root).create_writer(SinkWriterContext("out", 1, 1, 1, "job", 1), [])
            writer.write([{"n": 2}])
            writer.prepare_commit_at(8)
    assert everything(victim) == before


def test_folders_of_the_parquet_writers_own_that_are_links_are_left_alone(tmp_path: Path) -> None:
    """What a try of before has left is removed in the output directory only; nothing is moved elsewhere."""
    (tmp_path / "victim" / "7-1-3f").mkdir(parents=True)
    (tmp_path / "victim" / "7-1-3f" / "thesis").write_text("mine")
    for name in ("_attempts", "_taken_back"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "a+out").symlink_to(tmp_path / "victim")
    before = everything(tmp_path)
    writer = parquet(tmp_path / "out")
    with pytest.raises(StrayPathError, match="remove the link"):
        writer.begin(None, SparkEpoch("a", "out", 7, "a", 1, 7, "3f"))  # type: ignore[arg-type] - not used
    with pytest.raises(StrayPathError, match="remove the link"):
        writer.take_back("a", "out", [], [7])
    assert everything(tmp_path) == before


def test_an_output_directory_that_is_a_link_works(tmp_path: Path) -> None:
    """What counts is where it leads."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    output = Output(tmp_path)
    output.committer.commit([output.ready])
    assert len(list((tmp_path / "disk").glob("part-*"))) == 1


class Staging:
    """The sink of epochs with one staged row."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "checkpoints" / ".headgate-to-spark"
        self.epochs: list[int] = []
        self.sink = spark_sink(lambda frame, epoch: self.epochs.append(epoch.epoch))
        self.sink.stage_in(str(self.root), None)  # type: ignore[arg-type] - refused before a DataFrame is made
        writer = self.sink.create_writer(SinkWriterContext("out", 0, 1, 1, "job", 1), [])
        writer.write([{"n": 1}])
        (ready,) = writer.prepare_commit_at(7)
        self.ready: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(ready))
        self.committer = self.sink.create_committer()
        self.committer.begin(SinkCommitterContext("out", "job", 1, Lineage("job")))


@pytest.mark.parametrize("doing", ["commit", "hold", "release"])
@pytest.mark.parametrize(
    "crafted",
    [
        *({"pending": name} for name in STRAY),
        *({"root": root} for root in ("/", "relative", "{tmp}", "{tmp}/.headgate-to-spark/..", "", 3)),
        {"root": "{tmp}/.headgate-to-spark/deeper"},
        {"root": "{tmp}/link/.headgate-to-spark", "pending": "_pending/a/victim"},
    ],
)
def test_staged_rows_elsewhere_are_not_touched(tmp_path: Path, doing: str, crafted: dict[str, Any]) -> None:
    """Neither where the file is said to be, nor in a folder that no staging made."""
    staging = Staging(tmp_path)
    victim = tmp_path / "home" / "_pending" / "a" / "victim"
    victim.parent.mkdir(parents=True)
    victim.write_text("mine")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".headgate-to-spark").mkdir()
    (tmp_path / "link" / ".headgate-to-spark" / "_pending").symlink_to(tmp_path / "home" / "_pending")
    shutil.copytree(staging.root / "_pending", tmp_path / "_pending")
    before = everything(tmp_path)
    told = {key: v.format(tmp=tmp_path) if isinstance(v, str) else v for key, v in crafted.items()}
    ready = {**staging.ready, **told}
    if "root" in crafted and "pending" not in crafted:
        shutil.rmtree(staging.root / "_pending")
        before = everything(tmp_path)
    calls = {
        "commit": lambda: staging.committer.commit([ready]),
        "hold": lambda: staging.committer.hold([ready], SAVEPOINT),
        "release": lambda: staging.committer.release([ready], SAVEPOINT),
    }
    with pytest.raises(StrayPathError) as found:
        calls[doing]()
    stray(found)
    left = {name: text for name, text in everything(tmp_path).items() if "/journal/" not in name}
    assert left == before
    assert staging.epochs == []


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "folder",
    [
        "{tmp}/home",
        "{tmp}/.headgate-staging",
        "{tmp}/.headgate-staging/job",
        "{tmp}/.headgate-staging/job/in",
        "{tmp}/.headgate-staging/job/in/../../../home",
        "{tmp}/.headgate-staging/job/in/not-a-token",
        "{tmp}/.headgate-staging/job/link/" + TOKEN,
        "/",
        "",
        7,
    ],
)
def test_a_staged_input_elsewhere_is_neither_read_nor_removed(tmp_path: Path, folder: Any) -> None:
    """A claimed snapshot's staging is removed as a whole: only ever one that is a staging."""
    (tmp_path / "home" / TOKEN).mkdir(parents=True)
    (tmp_path / ".headgate-staging" / "job").mkdir(parents=True)
    (tmp_path / ".headgate-staging" / "job" / "link").symlink_to(tmp_path / "home")
    where = folder.format(tmp=tmp_path) if isinstance(folder, str) else folder
    with pytest.raises(StrayPathError) as found:
        Staged.of({"folder": where, "files": []})
    stray(found)
    real = f"{tmp_path}/.headgate-staging/job/in/{TOKEN}"
    assert Staged.of({"folder": real, "files": []}).folder == real


@pytest.mark.parametrize("name", ["../other.arrow", "/etc/passwd", "", "link"])
def test_a_staged_file_elsewhere_is_not_read(tmp_path: Path, name: str) -> None:
    """By whom it is looked for before the start, and by whom it is read."""
    folder = tmp_path / ".headgate-staging" / "job" / "in" / TOKEN
    folder.mkdir(parents=True)
    (folder / "link").symlink_to("/etc/passwd")
    file = [name, 1, 1, 1, 0, 0]
    with pytest.raises(StrayPathError):
        Staged.of({"folder": str(folder), "files": [file]}).require()
    for place in (str(folder), str(tmp_path)):
        reader = DataFrameReader()
        reader.add_splits([Split(name, {"folder": place, "file": file, "row": 0})])
        with pytest.raises(StrayPathError):
            reader.poll(1)


@pytest.mark.parametrize(
    "stored", ["{tmp}/secret", "{tmp}/in/../secret", "secret", "", 5, "{tmp}/in-other/a.json"]
)
@pytest.mark.parametrize("given", ["{tmp}/in", "{tmp}/in/*.json", "{tmp}/in/a.json"])
def test_a_source_opens_no_file_but_those_it_was_given(tmp_path: Path, given: str, stored: Any) -> None:
    """What a snapshot names must be what the program names, for enumerator, reader and the check before."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n":1}\n')
    (tmp_path / "secret").write_text('{"n":2}\n')
    path = stored.format(tmp=tmp_path) if isinstance(stored, str) else stored
    source = json_source(given.format(tmp=tmp_path))
    with pytest.raises(StrayPathError, match="which is none of JSON files"):
        source.create_enumerator([path])
    with pytest.raises(StrayPathError, match="it was not opened"):
        source.check_restore([path], [])
    with pytest.raises(UsageError, match=r"it was not opened|for 'id'; expected text"):
        source.check_restore(None, [Split(path)])
    reader = source.create_reader(SourceReaderContext("in", 0, 1))
    with pytest.raises((StrayPathError, PlanError), match=r"it was not opened|for 'id'; expected text"):
        reader.add_splits([Split(path)])
        reader.poll(1)
    good = source.create_reader(SourceReaderContext("in", 0, 1))
    good.add_splits([Split(str(tmp_path / "in" / "a.json"))])
    assert good.poll(1) == [{"n": 1}]
    good.close()


def test_a_log_of_sparks_is_laid_out_in_its_folder(tmp_path: Path) -> None:
    """Also when nobody has looked for damage before."""
    with pytest.raises(StrayPathError):
        lay_out(tmp_path / "query", {"../out": b""})
    assert list(tmp_path.rglob("out")) == []
