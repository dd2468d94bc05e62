"""The picture of what a sink saw in between: one row for each way, on one scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH, ROW, TOP = 900, 150, 60
_LEFT, _RIGHT, _HALF = 30, 30, 50
_LINE_CHARS, _LINES = 120, 5
"""Of a reason, at most."""
_POINTS: Final = 2_000
"""Of more answers every so many is drawn, and the farthest ones from 0 always."""


@dataclass(frozen=True, slots=True)
class Line:
    """The answers that a sink saw: how many transfers each is of, and the total; or `why` it saw
    none, such as "cannot: it has no such join"."""

    name: str
    answers: Sequence[tuple[int, int]] = ()
    why: str = ""

    @property
    def farthest(self) -> int:
        """The total that is farthest from 0."""
        return max((abs(total) for _, total in self.answers), default=0)

    @property
    def told(self) -> str:
        """How many answers were wrong."""
        if self.why:
            return self.why
        wrong = sum(total != 0 for _, total in self.answers)
        far = f", by up to {self.farthest:,}" if wrong else ""
        return f"{len(self.answers):,} totals were seen, {wrong:,} of them not 0{far}"


def drawn(lines: Sequence[Line]) -> str:
    """The picture, as SVG."""
    farthest = max((line.farthest for line in lines), default=0) or 1
    height = TOP + ROW * len(lines) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(26, 17, "#222222", "Credits minus debits of all accounts, as a reader of the sink sees them"),
        _text(44, 12, "#777777", "From the first transfer to the last; the right answer is always 0."),
    ]
    for number, line in enumerate(lines):
        parts += _row(line, TOP + ROW * number, farthest)
    return "\n".join([*parts, "</svg>", ""])


def _row(line: Line, top: int, farthest: int) -> list[str]:
    middle, width = top + 30 + _HALF, WIDTH - _LEFT - _RIGHT
    step, most_off = max(1, len(line.answers) // _POINTS), line.farthest
    chosen = [
        (place, total)
        for place, (_, total) in enumerate(line.answers)
        if place % step == 0 or abs(total) == most_off
    ]
    most = max(len(line.answers) - 1, 1)
    points = " ".join(
        f"{_LEFT + width * place / most:.1f},{middle - _HALF * total / farthest:.1f}"
        for place, total in chosen
    )
    if line.why:
        kind, _, reason = line.why.partition(": ")
        return [_text(top + 16, 13, "#222222", f"{line.name}: {kind}"), *_wrapped(reason, top + 38)]
    color = "#2f7d4f" if most_off == 0 else "#c2553a"
    return [
        _text(top + 16, 13, "#222222", f"{line.name}: {line.told}"),
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{middle}" y2="{middle}" stroke="#cccccc"/>',
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>',
    ]


def _wrapped(text: str, y: int) -> list[str]:
    lines = textwrap.wrap(text, _LINE_CHARS, max_lines=_LINES, placeholder=" ...")
    return [_text(y + 18 * number, 12, "#777777", line) for number, line in enumerate(lines)]


def _text(y: int, size: int, color: str, text: str) -> str:
    return f'<text x="{_LEFT}" y="{y}" font-size="{size}" fill="{color}">{escape(text)}</text>'
