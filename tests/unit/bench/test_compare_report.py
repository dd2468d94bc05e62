"""The command line of the comparison, its table, its chart, and which environments its peers get."""

from __future__ import annotations

import doctest
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from rich.console import Console

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

from bench.compare import answers, cells, chart, checksums, command, events, orders, systems, table
from bench.compare.cells import CANNOT, FAILED, Cell
from bench.compare.systems import SYSTEMS
from bench.peers import environments
from bench.peers.environments import AbsentError, Pinned

SVG = "{http://www.w3.org/2000/svg}"


def measured(query: str, system: str, *rates: float) -> Cell:
    """A cell with a number."""
    cell = Cell(
        query, system, rates=list(rates), starts_s=[2.0], cpu_us=[1.5], events=1_000, checked="all rows"
    )
    cell.rss_peak_mb, cell.checkpoints = 512.0, 7
    return cell


CELLS = [
    measured("J1", "headgate", 900.0, 1_000.0, 1_100.0),
    measured("J1", "headgate-json", 600.0),
    measured("J1", "flink", 250.0),
    Cell("J1", "spark", FAILED, "killed after 5 s"),
    measured("J1", "bytewax", 1_200.0),
    Cell("q1", "headgate", CANNOT, "not yet"),
    measured("q1", "flink", 250.0),
    Cell("q1", "pathway", CANNOT, "not yet"),
]


@pytest.mark.parametrize(
    "module", [answers, cells, chart, checksums, command, events, orders, systems, table]
)
def test_examples(module: ModuleType) -> None:
    """Those of the docstrings."""
    assert doctest.testmod(module).failed == 0


def test_words_of_the_command_line() -> None:
    """Names in the order of the table; Headgate reads JSON where a peer does."""
    asked = command.parsed(["--queries", "J2,q0", "--systems", "bytewax,headgate", "--events", "1000"])
    assert asked.queries == ["q0", "J2"]
    assert asked.systems == ["headgate", "headgate-json", "bytewax"]
    beside = command.parsed(["--systems", "flink-json,headgate"]).systems
    assert beside == ["headgate", "headgate-json", "flink-json"]
    assert (asked.events, asked.rounds) == (1_000, 1)
    assert command.parsed(["--systems", "bytewax"]).systems == ["bytewax"]
    everything = command.parsed([])
    assert (everything.events, everything.systems) == (command.EVENTS, list(SYSTEMS))
    smoke = command.parsed(["--smoke"])
    assert (smoke.queries, smoke.events) == (list(command.SMOKE_QUERIES), command.SMOKE_EVENTS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--queries", "q0,q99"], "no query q99; there are q0,"),
        (["--systems", "storm"], "no system storm; there are headgate,"),
        (["--events", "0"], "--events 0 is not 1 or more"),
    ],
)
def test_wrong_words_are_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names what there is."""
    with pytest.raises(SystemExit):
        command.parsed(words)
    assert told in capsys.readouterr().err


def test_a_record_is_resumed_with_its_whole_queries() -> None:
    """A query that lacks a system is measured again; a record of something else is refused."""
    now = {"events": {"count": 1_000}, "machine": {"commit": "a"}, "systems": {"headgate": "", "flink": ""}}
    kept = [cell for cell in CELLS if cell.query == "J1"]
    lacking = measured("q2", "flink", 1.0)
    earlier = {**now, "cells": [command._plain(cell, CELLS) for cell in (*kept, lacking)]}
    assert command.resumed(earlier, now) == kept
    assert command.missing(["q2", "J1"], kept) == ["q2"]
    with pytest.raises(SystemExit, match="the commit was a, and is b now"):
        command.resumed(earlier, {**now, "machine": {"commit": "b"}})


def test_ratios_are_to_the_run_on_the_same_format() -> None:
    """Bytewax reads JSON; of a cell without a number, or Headgate's own, there is none."""
    assert [table.ratio(cell, CELLS) for cell in CELLS] == [None, None, 4.0, None, 0.5, None, None, None]


def test_the_table_says_what_was_measured_and_why_not() -> None:
    """Equal reasons share a footnote; rates have a spread; every system and query is explained."""
    page = StringIO()
    table.show(CELLS, Console(file=page, width=170))
    text = page.getvalue()
    rows = {line.split("│")[2].strip(): line for line in text.splitlines() if line.startswith("│ J1")}
    assert "1,000.0" in rows["Headgate"]
    assert "900.0-1,100.0" in rows["Headgate"]
    assert text.count("(1)") == 2
    assert text.count("(2)") == 3
    assert "(1) killed after 5 s" in text
    assert "4.0 x" in text
    assert "J1: map and filter" in text
    assert f"Bytewax: {SYSTEMS['bytewax'].notes}" in text


def test_a_bar_is_as_long_as_its_ratio() -> None:
    """To the right where Headgate is faster, to the left where it is not; others have their status."""
    drawn = chart.picture(CELLS)
    root = ElementTree.fromstring(chart.svg(drawn))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"J1", "q1", "4.0 x", "0.5 x", "failed", "cannot", "no ratio"} <= set(texts)
    scale = chart.Scale.of([4.0, 0.5])
    bars = {shape.color: shape for shape in drawn.shapes if isinstance(shape, chart.Box)}
    flink, bytewax = bars[chart.COLORS["flink"]], bars[chart.COLORS["bytewax"]]
    assert (flink.x, flink.x + flink.width) == pytest.approx((scale.at(1.0), scale.at(4.0)))
    assert (bytewax.x, bytewax.x + bytewax.width) == pytest.approx((scale.at(0.5), scale.at(1.0)))
    assert all(0 <= shape.x <= drawn.width and 0 <= shape.y <= drawn.height for shape in drawn.shapes)
    assert chart.picture([]).shapes


def test_the_chart_is_an_svg_and_a_png(tmp_path: Path) -> None:
    """Where Pillow's environment is there; the SVG is written anyway."""
    path = tmp_path / "made" / "chart.svg"
    try:
        chart.write(CELLS, path, install=False)
    except AbsentError as error:
        assert path.is_file()
        pytest.skip(str(error))
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Programs of other environments read it with Python alone."""
    files = {"bid": orders.TableFiles("folder", [["auction", "bigint"]])}
    order = orders.Order(
        "q2", "SELECT 1", "json", files, [["n", "bigint"]], False, "w", None, 2, 7, None, 0, 60.0
    )
    order.write(tmp_path / "order.json")
    assert orders.Order.read(str(tmp_path / "order.json")) == order


def test_a_program_that_fails_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """Its causes in one line, without the stack of a JVM."""

    def failing() -> None:
        raise ValueError("It failed.\n\tat org.A.b(A.java:1)\nCaused by: no disk")

    with pytest.raises(SystemExit, match=r"^It failed\. Caused by: no disk$"):
        orders.carry_out(failing)


def test_an_environment_is_named_after_all_that_is_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another version of a jar is another environment; an engine that lags behind gets an older Python."""
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path))
    pinned = Pinned(("engine==1.0",), jars=("org.engine:format:2.0",), newest_python=(3, 12))
    assert environments._folder(pinned, "3.12").name == "py312-engine-1.0-format-2.0"
    assert environments._base_python("engine", pinned)[0]
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        AbsentError, match=r"engine needs Python 3\.12 or older, and no such Python is on the PATH"
    ):
        environments._base_python("engine", pinned)
    assert environments._base_python("any", Pinned(("any==1",))) == (sys.executable, "3.14")
