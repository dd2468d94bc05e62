"""The card of a job in a notebook: what it shows of a job that runs or has ended, and that it is harmless."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import counted_metrics
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.api.source import InputLeft
from headgate.display.event_texts import phrases
from headgate.display.notebook_card import VERTICES_MAX, card
from headgate.display.progress import CELL_EVERY_MS, CellDisplay, Narrator
from headgate.display.progress_status import JobProgress
from headgate.testing import ManualClock

TAGS = {"div", "span", "b", "pre", "svg", "g", "rect", "path", "text", "title", "polyline"}
HOSTILE = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>\x00\u202e&lt;\ud800"


class Found(HTMLParser):
    """The elements and the words of some HTML, as a browser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def plan(uid: str = "counted", more: int = 0) -> hg.PhysicalPlan:
    """A source, an operator behind an exchange, and a sink."""
    env = hg.Environment(parallelism=2)
    stream = env.from_collection([1], uid="in")
    for number in range(more):
        stream = stream.rebalance().map(str, uid=f"more-{number}")
    stream.rebalance().map(str, uid=uid).print(uid="out")
    return env.plan()


def running(name: str = "words", of: hg.PhysicalPlan | None = None) -> JobProgress:
    """A job that has run for three seconds."""
    status = JobProgress(name, {0}, 0)
    status.plan = plan() if of is None else of
    status.deploying(1)
    status.running(0)
    for second in range(4):
        counters = [
            counted_metrics.counted(0, 0, RECORDS_IN=1_000 * second, BUSY=100 * second),
            counted_metrics.counted(1, 0, RECORDS_IN=900 * second, BUSY=970 * second),
            counted_metrics.counted(1, 1, RECORDS_IN=100 * second, BUSY=10 * second),
        ]
        status.reading.update({"in": InputLeft(records=10_000 - 1_000 * second)}, second * 1000)
        status.progress(counters, second * 1000)
    return status


def test_a_running_job_shows_what_its_operators_do() -> None:
    """Rates and shares of the busiest subtask, what is read, and the lines."""
    status = running()
    html = card(status, phrases(status, 3_000), ["one failure"])
    words = Found(html).words
    for said in (
        "words",
        "running",
        "30% read, 7 s to go",
        "1,000/s, busy 10%",
        "1,000/s, busy 97%",
        "one failure",
    ):
        assert said in words
    assert 'aria-label="30.0% of the input is read"' in html
    assert html.count("<polyline") == 1
    ET.fromstring(html.replace("&middot;", "").replace("&times;", ""))  # complete in itself


def test_a_job_that_has_ended_has_no_rate_but_totals() -> None:
    """What is kept in the notebook is no moment of it."""
    status = running()
    status.state = "finished"
    words = Found(card(status, [], ["finished after 3.0 s"])).words
    assert "3,000 records" in words
    assert "busy" not in words
    assert "finished after 3.0 s" in words


def test_what_is_not_known_is_not_drawn() -> None:
    """Neither an input without an end, nor a plan, nor one that nobody could read."""
    status = JobProgress("words", None, 0)
    assert "<svg" not in card(status, phrases(status, 0), [])
    status.plan = plan(more=VERTICES_MAX)
    assert "<svg" not in card(status, phrases(status, 0), [])
    status.plan = plan()
    assert Found(card(status, phrases(status, 0), [])).words.count("0 records") >= 2


@given(st.text(max_size=80) | st.just(HOSTILE))
def test_no_text_of_the_program_becomes_markup(text: str) -> None:
    """Names of jobs and operators, lines of failures: no element, no attribute, no odd character."""
    status = running(text or "x")
    found = Found(card(status, [text], [text, f"{text}\n{text}"]))
    calm = running()
    usual = Found(card(calm, ["calm"], ["calm", "calm\ncalm"]))
    assert found.tags == usual.tags
    assert found.names == usual.names
    assert {*found.tags} <= TAGS
    assert not any(name.startswith("on") or name in ("href", "src") for name in found.names)
    assert all(c.isprintable() or c in "\n\t" for c in found.words)


def test_an_operator_s_name_becomes_no_markup() -> None:
    """It stands in the picture."""
    status = running(of=plan(uid="<script src=x>&lt;'\""))
    found = Found(card(status, [], []))
    assert "script" not in found.tags
    assert "<script src=x>&lt;'\"" in found.words


class Notebook:
    """Keeps what each display shows, as a notebook's file does."""

    def __init__(self) -> None:
        self.outputs: list[list[dict[str, str]]] = []

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        shown = [data]
        self.outputs.append(shown)

        class Output:
            def update(self, data: dict[str, str], *, raw: bool) -> None:
                shown.append(data)

        return Output()


@pytest.mark.parametrize("end", ["finished", "failed"])
def test_the_last_card_says_how_the_job_ended(end: str) -> None:
    """One output for a job, updated now and then while it runs, and in any case at the end."""
    notebook, clock, status = Notebook(), ManualClock(0), JobProgress("words", {0}, 0)
    status.plan = plan()
    narrator = Narrator(status, CellDisplay(status, clock, notebook), clock)
    narrator.gang_submitted(1, 2)
    narrator.deploying(1, None)
    narrator.running(1)
    for number in range(1, 1_000):
        clock.advance(10)
        narrator.progress([counted_metrics.counted(0, 0, RECORDS_IN=number)])
        narrator.checkpoint_completed(number, 3)
    narrator.ended(end)
    (shown,) = notebook.outputs
    assert len(shown) <= 10_000 / CELL_EVERY_MS + 3
    assert shown[-1]["text/plain"].startswith(f"words: {end} after 10.0 s: 999 records in")
    assert f"{end} after 10.0 s" in Found(shown[-1]["text/html"]).words
    assert "script" not in shown[-1]["text/html"]
