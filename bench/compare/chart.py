"""The chart of the comparison: how many times as fast Headgate is, by query and engine, on a logarithmic
scale.

A chart is a list of shapes, drawn twice: as SVG here, as PNG by Pillow in an environment of its own.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from bench.compare.cells import Cell
from bench.compare.systems import SYSTEMS
from bench.compare.table import ratio
from bench.machine import ROOT
from bench.peers.environments import PILLOW, interpreter

WIDTH: Final = 900
LEFT, RIGHT, TOP, BOTTOM = 230, 90, 70, 40
BAR, GAP, GROUP_GAP = 16, 4, 16
TEXT: Final = "#222222"
FAINT: Final = "#cccccc"
COLORS: Final = {
    "flink": "#c2553a",
    "flink-json": "#8f3b28",
    "spark": "#d9912b",
    "bytewax": "#3d7ea6",
    "pathway": "#6b8e4e",
}
_DRAW: Final = ROOT / "bench" / "peers" / "chart_png.py"
_DRAW_TIMEOUT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    color: str


@dataclass(frozen=True, slots=True)
class Label:
    """Text, placed by its baseline; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    size: int = 13
    anchor: str = "start"
    color: str = TEXT


Shape = Box | Label


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes on a white page, the first one lowest."""

    width: int
    height: int
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a ratio is on the axis, which goes by powers of ten and always shows 1.

    Example:
        >>> scale = Scale.of([0.5, 20.0])
        >>> scale.ticks, scale.at(0.1) == LEFT, scale.at(100.0) == WIDTH - RIGHT
        ([0.1, 1.0, 10.0, 100.0], True, True)
    """

    low: int
    high: int

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Scale:
        """The scale for these ratios."""
        logs = [math.log10(each) for each in (*ratios, 1.0)]
        return cls(math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1))

    @property
    def ticks(self) -> list[float]:
        """Ratios with a line."""
        return [10.0**power for power in range(self.low, self.high + 1)]

    def at(self, value: float) -> float:
        """Its place from the left."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def picture(cells: Sequence[Cell]) -> Picture:
    """The chart of all peers; a peer without a ratio has its status instead of a bar."""
    peers = [cell for cell in cells if not cell.system.startswith("headgate")]
    ratios = {(cell.query, cell.system): ratio(cell, cells) for cell in peers}
    scale = Scale.of([value for value in ratios.values() if value is not None])
    bars: list[Shape] = []
    y, query = float(TOP), ""
    for cell in peers:
        if cell.query != query:
            y += GROUP_GAP if query else 0
            query = cell.query
            bars.append(Label(16, y + BAR - 3, query, 14))
        bars += _bar(cell, ratios[cell.query, cell.system], scale, y)
        y += BAR + GAP
    return Picture(WIDTH, int(y) + BOTTOM, (*_axis(scale, y), *bars))


def _bar(cell: Cell, value: float | None, scale: Scale, y: float) -> list[Shape]:
    baseline, one = y + BAR - 3, scale.at(1.0)
    name = Label(LEFT - 10, baseline, SYSTEMS[cell.system].title, 12, "end")
    if value is None:
        told = cell.status if cell.rate is None else "no ratio"
        return [name, Label(one + 6, baseline, told, 12, color="#777777")]
    end = scale.at(value)
    box = Box(min(one, end), y, max(abs(end - one), 1.0), BAR, COLORS.get(cell.system, TEXT))
    return [name, box, Label(max(one, end) + 6, baseline, f"{value:.1f} x", 12)]


def _axis(scale: Scale, bottom: float) -> list[Shape]:
    shapes: list[Shape] = [
        Label(16, 26, "Events per second: Headgate as a multiple of each peer", 17),
        Label(16, 44, "The same events in one run; beyond 1 Headgate is faster.", 12, color="#777777"),
    ]
    for tick in scale.ticks:
        x = scale.at(tick)
        shapes.append(Box(x, TOP - 6, 1, bottom - TOP + 6, TEXT if tick == 1.0 else FAINT))
        shapes.append(Label(x, bottom + 16, f"{tick:g} x", 12, "middle"))
    return shapes


def svg(drawn: Picture) -> str:
    """The picture as a file of SVG."""
    size, font = f'width="{drawn.width}" height="{drawn.height}"', 'font-family="sans-serif"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawn.width} {drawn.height}" {size} {font}>',
        f'<rect {size} fill="#ffffff"/>',
        *(_element(shape) for shape in drawn.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
        return f'<rect {place} fill="{shape.color}"/>'
    place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}" text-anchor="{shape.anchor}"'
    return f'<text {place} fill="{shape.color}">{escape(shape.text)}</text>'


def write(cells: Sequence[Cell], path: Path, install: bool) -> None:
    """Write the chart as SVG, and beside it as PNG.

    Args:
        cells: of the comparison.
        path: of the SVG.
        install: whether Pillow is installed if it is absent.

    Raises:
        AbsentError: there is no Pillow for the PNG; the SVG is written nevertheless.
        subprocess.CalledProcessError: the PNG could not be drawn.
    """
    drawn = picture(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(drawn))
    python, _ = interpreter(PILLOW, install)
    plain = {
        "width": drawn.width,
        "height": drawn.height,
        "shapes": [asdict(shape) for shape in drawn.shapes],
    }
    command = [python, str(_DRAW), str(path.with_suffix(".png"))]
    subprocess.run(command, input=json.dumps(plain), text=True, check=True, timeout=_DRAW_TIMEOUT_S)
