"""The demo's picture: events read over time, checkpoints, and the moment in which a worker was killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 340
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 56, 66
_STYLE: Final = """
    text { font: 13px system-ui, sans-serif; fill: #33404d }
    .title { font-size: 16px; font-weight: 600 }
    .axis { stroke: #b9c2cb }
    .read { fill: none; stroke: #1f6fb2; stroke-width: 2 }
    .down { fill: #d64545; fill-opacity: .18 }
    .killed { stroke: #d64545; stroke-width: 2 }
    .checkpoint { stroke: #2c8a57; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
        text { fill: #d5dde5 }
        .paper { fill: #12181e }
    }
"""


@dataclass
class Story:
    """What happened in a run, in seconds since the first workers were deployed.

    Attributes:
        total: how many events there are.
        read: (seconds, events whose effects count), in order of time.
        checkpoints: when they were complete.
        killed: when the worker was.
        recovered: when all subtasks ran again.
    """

    total: int
    read: list[tuple[float, int]] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)
    killed: float | None = None
    recovered: float | None = None

    @property
    def length(self) -> float:
        """The seconds that the picture shows."""
        return max([1.0, *(at for at, _ in self.read), *self.checkpoints])


def drawn(story: Story) -> str:
    """The picture, as SVG."""
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_told(story)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text class="title" x="{LEFT}" y="24">Events read, and a worker killed half-way</text>',
        f'<text x="{LEFT}" y="43">{_told(story)}</text>',
        *_down(story),
        *_axes(story),
        *(_line("checkpoint", story, at, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 9) for at in story.checkpoints),
        f'<polyline class="read" points="{_points(story)}"/>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def _told(story: Story) -> str:
    text = f"{story.total:,} events, {len(story.checkpoints)} checkpoints (green)"
    if story.killed is None or story.recovered is None:
        return text
    return f"{text}, running again {story.recovered - story.killed:.1f} s after kill -9 (red)"


def _x(story: Story, at: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / story.length


def _y(story: Story, events: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * events / story.total


def _points(story: Story) -> str:
    return " ".join(f"{_x(story, at):.1f},{_y(story, events):.1f}" for at, events in story.read)


def _line(kind: str, story: Story, at: float, top: float, bottom: float) -> str:
    x = f"{_x(story, at):.1f}"
    return f'<line class="{kind}" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'


def _down(story: Story) -> Sequence[str]:
    if story.killed is None:
        return []
    until = story.length if story.recovered is None else story.recovered
    left, right = _x(story, story.killed), _x(story, until)
    height = HEIGHT - TOP - BOTTOM
    return [
        f'<rect class="down" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{height}"/>',
        _line("killed", story, story.killed, TOP, HEIGHT - BOTTOM),
    ]


def _axes(story: Story) -> list[str]:
    bottom, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for share in (0, 0.5, 1):
        events = round(story.total * share)
        y = _y(story, events)
        parts += [
            f'<line class="axis" x1="{LEFT}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{events:,}</text>',
        ]
    for number in range(5):
        at = story.length * number / 4
        x = f"{_x(story, at):.1f}"
        parts.append(f'<text x="{x}" y="{bottom + 26}" text-anchor="middle">{at:.0f} s</text>')
    middle = (LEFT + end) / 2
    parts.append(
        f'<text x="{middle}" y="{bottom + 48}" text-anchor="middle">time since the first deployment</text>'
    )
    return parts
