"""The tables for people, the bars, and the record in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_BAR_CELLS = 40


def write_record(record: dict[str, Any], path: Path) -> None:
    """The whole record, readable by the next run whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(path)


def show(record: dict[str, Any], console: Console) -> None:
    """Everything that was measured."""
    sections = record["sections"]
    if "j2" in sections:
        _show_j2(sections["j2"], record["smoke"], console)
    if sections.get("checkpoint-cost", {}).get("rows"):
        _show_costs(sections["checkpoint-cost"], console)
    if sections.get("barriers", {}).get("rows"):
        _show_barriers(sections["barriers"], console)
    for name in (
        "window-latency",
        "open-sessions",
        "marks-latency",
        "marks-cost",
        "open-rows",
        "state",
        "state-large",
        "savepoints",
        "user-code",
        "isolation",
        *(name for name in sections if name.startswith("spark-")),
    ):
        if sections.get(name, {}).get("rows"):
            _show_state(name, sections[name], console)
    if any(name in _PHRASES for name in sections):
        _show_others(sections, console)
    for name, section in sections.items():
        for text in section["failed"]:
            console.print(f"[red]failed[/red] {name}: {text}", highlight=False)
    if record["smoke"]:
        console.print("The smoke form: it shows that everything works; its numbers mean little.")


def _show_j2(section: dict[str, Any], smoke: bool, console: Console) -> None:
    table = Table(title=f"J2: running count per auction, {section['events']:,} bids", title_justify="left")
    table.add_column("engine")
    for heading in (
        "runs",
        "events/s",
        "spread",
        "job s",
        "CPU us/event",
        "workers only",
        "peak MB",
        "others",
    ):
        table.add_column(heading, justify="right")
    for engine in section["engines"]:
        spread = "" if engine["runs"] < 2 else f"{short(engine['slowest'])}-{short(engine['fastest'])}"
        table.add_row(
            engine["title"],
            str(engine["runs"]),
            short(engine["events_per_s"]),
            spread,
            number(engine["job_s"], 1),
            number(engine["tree_cpu_us"], 2),
            number(engine["workers_cpu_us"], 2),
            number(engine["rss_peak_mb"], 0),
            percent(engine["others"]),
        )
    console.print(table)
    for key, reason in section["absent"].items():
        console.print(f"absent: {key}: {reason}", highlight=False, markup=False)
    _show_bars(section["engines"], console)
    if not smoke:
        _show_ratios(section, console)


def _show_bars(engines: list[dict[str, Any]], console: Console) -> None:
    # The ceiling would make all others short.
    shown = [engine for engine in engines if engine["events_per_s"] and engine["key"] != "dict-loop"]
    longest = max((engine["events_per_s"] for engine in shown), default=0)
    for engine in shown:
        cells = engine["events_per_s"] / longest * _BAR_CELLS
        console.print(f"{engine['title']:>36} {bar(cells)} {short(engine['events_per_s'])}", highlight=False)


def _show_ratios(section: dict[str, Any], console: Console) -> None:
    table = Table(title="against what is wanted", title_justify="left")
    for heading in ("", "wanted", "measured", "", "round by round"):
        table.add_column(heading, justify="right")
    for target in section["targets"]:
        measured = target["measured"]
        rounds = section["ratios"].get(target["name"].removeprefix("times "), [])
        table.add_row(
            target["name"],
            short(target["wanted"]),
            short(measured),
            _verdict(None if measured is None else measured >= target["wanted"]),
            "  ".join(f"{ratio:.1f}" for ratio in rounds),
        )
    console.print(table)


def _show_costs(section: dict[str, Any], console: Console) -> None:
    title = f"CPU time of the workers with checkpoints every second, {section['events']:,} bids"
    table = Table(title=title, title_justify="left")
    table.add_column("job, checkpoints")
    for heading in ("pairs", "us/event off", "on", "cost", "spread", "wanted", ""):
        table.add_column(heading, justify="right")
    for row in section["rows"]:
        cost, wanted = row["cost"], row["wanted"]
        table.add_row(
            row["title"],
            str(len(row["costs"])),
            number(row["cpu_us_off"], 3),
            number(row["cpu_us_on"], 3),
            share(cost),
            "" if cost is None else f"{share(row['least'])} to {share(row['most'])}",
            "" if wanted is None else f"<= {wanted:.0%}",
            _verdict(None if cost is None or wanted is None else cost <= wanted),
        )
    console.print(table)


def _show_barriers(section: dict[str, Any], console: Console) -> None:
    title = "checkpoints under backpressure, from trigger to commit"
    table = Table(title=title, title_justify="left")
    table.add_column("barriers")
    for heading in (
        "checkpoints",
        "p50 ms",
        "p99 ms",
        "max ms",
        "in flight MB",
        "source blocked",
        "cost at sink",
        "",
    ):
        table.add_column(heading, justify="right")
    for row in section["rows"]:
        table.add_row(
            row["title"],
            str(row["checkpoints"]),
            number(row["p50_ms"], 0),
            number(row["p99_ms"], 0),
            number(row["max_ms"], 0),
            number(row["in_flight_mb"], 1),
            percent(row["source_blocked"]),
            "-" if row["times_slower"] is None else f"{row['times_slower']:.0f} x source",
            _verdict(row["met"]) if row["conclusive"] else "too little seen",
        )
    console.print(table)
    if section["times_aligned"] is not None:
        times = short(section["times_aligned"])
        console.print(f"an aligned one takes {times} times as long as an unaligned one", highlight=False)


def _show_state(name: str, section: dict[str, Any], console: Console) -> None:
    table = Table(title=name, title_justify="left")
    table.add_column("what")
    for heading in ("measured", "wanted", ""):
        table.add_column(heading, justify="right")
    for row in section["rows"]:
        table.add_row(row["what"], row["shown"], row["wanted"], _verdict(row["met"]))
    console.print(table)
    for key, reason in section["absent"].items():
        console.print(f"absent: {key}: {reason}", highlight=False, markup=False)


def _verdict(met: bool | None) -> str:
    return "" if met is None else "[green]met[/green]" if met else "[red]missed[/red]"


def _show_others(sections: dict[str, Any], console: Console) -> None:
    table = Table(title="Headgate alone", title_justify="left", show_header=False)
    table.add_column("section")
    table.add_column("result")
    for name, phrase in _PHRASES.items():
        if name in sections:
            section = sections[name]
            table.add_row(name, phrase(section) if not section["failed"] else "[red]failed, see below[/red]")
    console.print(table)


def _memory(section: dict[str, Any]) -> str:
    slope = section["slope_mb_per_minute"]
    flat = "" if section["flat"] is None else ", flat" if section["flat"] else ", NOT flat"
    return (
        f"the steeper worker grows {number(slope, 2)} MB/min{flat}; "
        f"{short(section['events_per_s'])} events/s for {section['job_s']:.0f} s, checkpoints every second"
    )


def _backpressure(section: dict[str, Any]) -> str:
    return (
        f"at most {section['in_flight_seen_max']:,} records on their way "
        f"(bound {section['in_flight_bound']:,}), "
        f"source blocked {percent(section['source_blocked'])} of the time, "
        f"memory {number(section['slope_mb_per_minute'], 1)} MB/min, nothing lost"
    )


def _latency(section: dict[str, Any]) -> str:
    shown = ", ".join(f"{name} {section[f'{name}_ms']} ms" for name in ("p50", "p90", "p99", "p99.9"))
    return f"{shown} at {section['rate']:,} records/s"


_PHRASES = {
    "memory": _memory,
    "backpressure": _backpressure,
    "latency": _latency,
}


def short(value: float | None) -> str:
    """A rate or ratio in three digits.

    Example:
        >>> short(1_234_567), short(34_600), short(7.31), short(None)
        ('1.23 M', '35 k', '7.3', '-')
    """
    if value is None:
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.0f} k" if value >= 1e4 else f"{value:,.1f}"


def number(value: float | None, digits: int) -> str:
    """A number, or a dash for none.

    Example:
        >>> number(1.256, 1), number(None, 1)
        ('1.3', '-')
    """
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share.

    Example:
        >>> percent(0.256), percent(None)
        ('26%', '-')
    """
    return "-" if value is None else f"{value:.0%}"


def share(value: float | None) -> str:
    """A small share, to a tenth of a per cent.

    Example:
        >>> share(0.0256), share(-0.004), share(None)
        ('2.6%', '-0.4%', '-')
    """
    return "-" if value is None else f"{value:.1%}"


def bar(cells: float) -> str:
    """A bar of that many character cells, to an eighth.

    Example:
        >>> bar(2.5), bar(0.01)
        ('██▌', '▏')
    """
    eighths = max(1, round(cells * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
