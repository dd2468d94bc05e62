"""Draws a chart as PNG, in twice its size for sharp text. Runs in Pillow's environment.

chart_png.py FILE.png < CHART.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from PIL import Image, ImageDraw, ImageFont

SCALE = 2
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def main() -> None:
    """The program."""
    chart = json.load(sys.stdin)
    page = Image.new("RGB", (chart["width"] * SCALE, chart["height"] * SCALE), "#ffffff")
    draw = ImageDraw.Draw(page)
    for shape in chart["shapes"]:
        draw_shape(draw, shape)
    page.save(sys.argv[1])


def draw_shape(draw: Any, shape: dict[str, Any]) -> None:
    """A rectangle, or a text on its baseline."""
    x, y = shape["x"] * SCALE, shape["y"] * SCALE
    if "text" in shape:
        font = ImageFont.load_default(size=shape["size"] * SCALE)
        draw.text((x, y), shape["text"], shape["color"], font, ANCHORS[shape["anchor"]])
    else:
        right, bottom = x + shape["width"] * SCALE - 1, y + shape["height"] * SCALE - 1
        draw.rectangle((x, y, max(x, right), max(y, bottom)), shape["color"])


if __name__ == "__main__":
    main()
