"""What objects of a program look like to who types their name: one line, and a small table of HTML."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from api_fakes import Count, Numbers, RecordingExecutor, Shelf

import headgate as hg

MANY = [{"text": "x" * 1_000, "n": n} for n in range(1_000)]


@dataclass
class Commit:
    """A record."""

    author: str
    lines: int


class Tags(HTMLParser):
    """Notes what is open, and all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked_html(shown: Any) -> str:
    """The HTML form: closed tags, nothing that is loaded or run."""
    html = str(shown._repr_html_())
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert tags.names <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert tags.attributes <= {"style"}
    assert "url(" not in html
    return html


class Rule(hg.BroadcastProcessFunction[Any, Any, Any]):
    """Passes everything."""

    def process(self, record: Any, ctx: Any) -> Any:
        yield record

    def process_broadcast(self, record: Any, ctx: Any) -> Any:
        yield record


def test_every_object_of_a_program_is_one_line() -> None:
    """It says what it is: kind, name, type of records, uid, place."""
    env = hg.Environment(parallelism=3, executor=RecordingExecutor())
    numbers = env.from_source(Numbers(), uid="in")
    keyed = numbers.key_by("author")
    shapes = {
        "<Environment: operators 1, sinks 0, parallelism 3, checkpoints off>": env,
        "<DataStream 'Numbers'": numbers,
        "<DataStream 'map', of str, ": numbers.map(str),
        "<KeyedStream by 'author', written at test_showing.py:": keyed,
        "<DataStream 'Count'": keyed.process(Count()),
        "<BroadcastStream 'broadcast'": numbers.broadcast(),
        "<BroadcastConnectedStream of 'Numbers' (": numbers.connect(numbers.broadcast()),
        "<KeyedBroadcastConnectedStream of 'key_by' (": keyed.connect(numbers.broadcast()),
        "<StreamSink 'Shelf', uid 'shelf', written at test_showing.py:": numbers.sink_to(
            Shelf(), uid="shelf"
        ),
        "<Collected 'collect': not executed yet>": numbers.collect_later(),
        "<DataFrameLater: not executed yet>": numbers.to_dataframe_later(),
    }
    shown = [repr(thing) for thing in shapes.values()]
    for thing in shapes.values():
        checked_html(thing)
    assert [text for text in shown if "\n" in text or len(text) > 200] == []
    first = repr(hg.Environment(parallelism=3))
    assert first == "<Environment: operators 0, sinks 0, parallelism 3, checkpoints off>"
    for beginning, text in list(zip(shapes, shown, strict=True))[1:]:
        assert text.startswith(beginning), text
    assert shown[0] == "<Environment: operators 6, sinks 3 (3 to run), parallelism 3, checkpoints off>"
    env.checkpoints("10s", storage="/there")
    assert "checkpoints every 10s" in repr(env)
    html = checked_html(env)
    assert "Shelf" in html
    assert "3 to run" in html
    assert "map" in checked_html(numbers.map(str))


def test_a_status_is_one_line() -> None:
    """What a cell with `job.status()` shows; the operators stand in the table."""
    counted = hg.VertexStatus("in -> map", ["in", "map-1"], 2, 1_200, 1_100, 5, 0, None)
    status = hg.JobStatus(
        job_id="j1",
        name="clicks",
        state="running",
        attempt=2,
        restarts=1,
        generation=1,
        parallelism=2,
        max_parallelism=128,
        started_ms=0,
        checkpoints_triggered=4,
        checkpoints_completed=3,
        checkpoints_failed=1,
        savepoints_completed=0,
        pending=[],
        latest_checkpoint=3,
        latest_duration_ms=20,
        last_failure="<b>",
        last_checkpoint_failure=None,
        savepoint=None,
        vertices=[counted],
    )
    assert repr(status) == "<JobStatus 'clicks': running, attempt 2, restarts 1, checkpoints 3>"
    html = checked_html(status)
    assert "1,200" in html
    assert "&lt;b&gt;" in html


def test_a_result_counts_what_was_collected_and_shows_none_of_it() -> None:
    """A notebook shows the value of a cell's last line: that must not be a million records."""
    result = hg.JobResult(
        "j1", "job<b>", records_in={"in<script>": 12_000}, collected={"out": MANY}, duration_ms=3_210
    )
    line = repr(result)
    assert line == (
        "<JobResult 'job<b>': ended well, after 3.2 s, checkpoints 0, restarts 0, collected 1,000 records>"
    )
    html = checked_html(result)
    assert "12,000" in html
    assert "&lt;script&gt;" in html
    assert "xxx" not in html


class Held(RecordingExecutor):
    """Begins its job when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()

    def execute(self, job: Any) -> hg.JobResult:
        self.may_end.wait()
        return super().execute(job)


def test_a_handle_says_how_the_job_does_and_never_waits_for_it() -> None:
    """Also of a job that does not answer yet."""
    executor = Held()
    env = hg.Environment(executor=executor)
    env.from_source(Numbers()).sink_to(Shelf())
    job = env.execute_async("slow")
    assert repr(job) == "<JobHandle 'slow': starting>"
    checked_html(job)
    executor.may_end.set()
    job.result()
    assert repr(job).startswith("<JobHandle 'slow': ")


@pytest.mark.parametrize(
    ("records", "columns"),
    [
        ([{"author": "ada", "lines": 3}], ["author", "lines"]),
        ([Commit("ada", 3)], ["author", "lines"]),
        ([("ada", 3)], ["_1", "_2"]),
        (["ada", 3, None], ["record"]),
        ([{"a": 1}, {"b": 2}], ["a", "b"]),
        ([{f"c{n}": n for n in range(40)}], [*(f"c{n}" for n in range(20)), "... 20 more"]),
    ],
)
def test_a_preview_is_a_table_of_whatever_records(records: list[Any], columns: list[str]) -> None:
    """And a sequence of them."""
    preview = hg.Preview(records)
    assert [name.strip() for name in repr(preview).splitlines()[0].split("|")] == columns
    assert (preview == records, len(preview), preview[0]) == (True, len(records), records[0])
    checked_html(preview)


def test_a_preview_is_never_a_flood() -> None:
    """Rows and cells are bounded, and text cannot leave its cell."""
    preview = hg.Preview([*MANY, {"text": "a\nb\x1b[31m<img src=x>", "n": 1}])
    lines = repr(preview).splitlines()
    assert len(lines) == 53
    assert max(map(len, lines)) < 80
    assert lines[-1] == "1,001 records, 50 shown"
    torn = hg.Preview([{"text": "a\nb\x1b[31m<img src=x>"}])
    assert len(repr(torn).splitlines()) == 4
    assert "\x1b" not in repr(torn)
    assert "<img" not in checked_html(torn)
    assert repr(hg.Preview([])) == "0 records"
    checked_html(hg.Preview([]))
