"""The card of a job in a notebook: its state, its progress, its graph and its rate, as HTML without scripts.

The text is complete in itself, so what a notebook keeps of it is a picture of how the job ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from headgate.display.progress_status import JobProgress
from headgate.display.vertex_paces import Pace
from headgate.graph.graph_layout import places
from headgate.graph.physical import PhysicalPlan, Vertex

NAME_MAX: Final = 28
"""So many characters of an operator's name are shown."""
LINE_MAX: Final = 2_000
VERTICES_MAX: Final = 40
"""The graph of a larger job is not drawn: nobody could read it."""

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 190, 46, 46, 14  # of a box, and between two, in pixels
_LINE_WIDTH, _LINE_HEIGHT = 360, 34
_BUSY, _WAITS = 0.8, 0.2  # from these shares on a box is marked
_COLOURS: Final = {
    **dict.fromkeys(("running", "finished"), "#15803d"),
    **dict.fromkeys(("failing", "failed"), "#b91c1c"),
}


def card(status: JobProgress, phrases: Sequence[str], lasting: Sequence[str]) -> str:
    """Return the card of a job as HTML; `phrases` say how it goes, `lasting` lines what has happened.
    All texts of the program are escaped, and characters that do not show are replaced.
    """
    parts = [_head(status, phrases), _bar(status.reading.share)]
    if status.plan is not None and len(status.plan.vertices) <= VERTICES_MAX:
        parts.append(_graph(status.plan, status))
    parts.append(_rates(status.rates))
    if lasting:
        text = "\n".join(plain(line, LINE_MAX, lines=True) for line in lasting)
        parts.append(f'<pre style="margin:6px 0;white-space:pre-wrap">{text}</pre>')
    return f'<div style="font:13px/1.4 sans-serif">{"".join(parts)}</div>'


def plain(text: str, most: int, *, lines: bool = False) -> str:
    r"""Return a text of the program for HTML: escaped, and cut to `most` characters. Characters that do not
    show or turn the direction of writing are replaced; `lines` keeps line ends.

    Example:
        >>> plain("<b>\u202e\x00 & more", 12)
        '&lt;b&gt;\ufffd\ufffd &amp; more'
    """
    cut = text if len(text) <= most else f"{text[: most - 3]}..."
    return escape("".join(c if c.isprintable() or (lines and c in "\n\t") else "\ufffd" for c in cut))


def _head(status: JobProgress, phrases: Sequence[str]) -> str:
    colour = _COLOURS.get(status.state, "#a16207")
    rest = " &middot; ".join(plain(phrase, 200) for phrase in phrases)
    # The words have the colour of the notebook's own: this one stands out from light and from dark.
    shape = "display:inline-block;width:10px;height:10px;border-radius:5px;margin:0 4px"
    dot = f'<span style="background:{colour};{shape}"></span>'
    state = f"{dot} <b>{plain(status.state, 40)}</b>"
    return f'<div><b>{plain(status.name, 200)}</b> {state} <span style="opacity:0.75">{rest}</span></div>'


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    percent = f"{100 * share:.1f}"
    return (
        '<svg width="360" height="8" style="display:block;margin:6px 0" role="img"'
        f' aria-label="{percent}% of the input is read">'
        '<rect width="360" height="8" rx="4" fill="currentColor" fill-opacity="0.15"/>'
        f'<rect width="{360 * share:.1f}" height="8" rx="4" fill="#15803d"/></svg>'
    )


def _graph(plan: PhysicalPlan, status: JobProgress) -> str:
    at = places([each.id for each in plan.vertices], [(each.source, each.target) for each in plan.edges])
    width = (max(column for column, _ in at.values()) + 1) * (_WIDTH + _ACROSS) - _ACROSS
    height = (max(row for _, row in at.values()) + 1) * (_HEIGHT + _DOWN) - _DOWN
    lines = [_edge(at[each.source], at[each.target]) for each in plan.edges]
    now = status.state == "running"  # else it has no pace
    paces = {each.id: status.paces.of(each.id) for each in plan.vertices}
    boxes = [
        _box(each, at[each.id], paces[each.id] if now else Pace(paces[each.id].records, None, None, None))
        for each in plan.vertices
    ]
    return (
        f'<div style="overflow-x:auto"><svg width="{width}" height="{height}" role="img"'
        ' aria-label="The operators of the job" style="display:block;margin:6px 0"'
        f' font-family="sans-serif" font-size="12" fill="currentColor">'
        f"{''.join([*lines, *boxes])}</svg></div>"
    )


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    x, y = _corner(source)
    to_x, to_y = _corner(target)
    x, y, to_y = x + _WIDTH, y + _HEIGHT // 2, to_y + _HEIGHT // 2
    middle = (x + to_x) // 2
    curve = f"M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"
    return f'<path d="{curve}" fill="none" stroke="currentColor" stroke-opacity="0.5"/>'


def _box(vertex: Vertex, place: tuple[int, int], pace: Pace) -> str:
    x, y = _corner(place)
    busy, waits = pace.busy or 0.0, pace.backpressured or 0.0
    fill = "#b91c1c" if busy >= _BUSY else "#a16207" if waits >= _WAITS else "currentColor"
    name = " -> ".join(node.known_as for node in vertex.chain)
    times = f" &times;{vertex.parallelism}" if vertex.parallelism > 1 else ""
    return (
        f'<g><title>{plain(name, 300)}</title><rect x="{x + 1}" y="{y + 1}" width="{_WIDTH - 2}"'
        f' height="{_HEIGHT - 2}" rx="6" fill="{fill}" fill-opacity="0.12" stroke="{fill}"/>'
        f'<text x="{x + 10}" y="{y + 19}" font-weight="bold">{plain(name, NAME_MAX)}{times}</text>'
        f'<text x="{x + 10}" y="{y + 36}">{_says(pace)}</text></g>'
    )


def _says(pace: Pace) -> str:
    if pace.per_s is None or pace.busy is None:
        return f"{pace.records:,} records"
    waits = f", waits {pace.backpressured:.0%}" if (pace.backpressured or 0) >= _WAITS else ""
    return f"{pace.per_s:,.0f}/s, busy {pace.busy:.0%}{waits}"


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return column * (_WIDTH + _ACROSS), row * (_HEIGHT + _DOWN)


def _rates(rates: Sequence[float]) -> str:
    if len(rates) < 2:
        return ""
    most = max(rates) or 1.0
    step = _LINE_WIDTH / (len(rates) - 1)
    points = " ".join(
        f"{n * step:.1f},{_LINE_HEIGHT - rate / most * _LINE_HEIGHT:.1f}" for n, rate in enumerate(rates)
    )
    return (
        f'<svg width="{_LINE_WIDTH}" height="{_LINE_HEIGHT + 2}" style="display:block;margin:6px 0"'
        ' role="img"'
        f' aria-label="Records per second, at most {most:,.0f}">'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
        f'<div style="opacity:0.75">records per second, at most {most:,.0f}</div>'
    )
