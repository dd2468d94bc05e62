"""Counts clicks per page for as long as it is let; the first version of the program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import headgate as hg

Click = dict[str, Any]
PAGES = 50


@dataclass(frozen=True)
class Visits:
    """What is known of a page."""

    clicks: int = 0


class PerPage(hg.KeyedProcessFunction[str, Click, Click]):
    """Emits each page's running count."""

    visits: hg.ValueState[Visits] = hg.value_state(default=Visits())

    def process(self, click: Click, ctx: hg.KeyedContext[str]) -> Iterator[Click]:
        self.visits.value = replace(self.visits.value, clicks=self.visits.value.clicks + 1)
        yield {"n": click["n"], "page": ctx.key, "clicks": self.visits.value.clicks}


def click(number: int) -> Click:
    """The click with this number."""
    return {"n": number, "page": f"page-{number * 7 % PAGES}", "user": f"user-{number % 11}"}


def build(env: hg.Environment) -> None:
    """Clicks that never end, counted into the folder that the command line names."""
    clicks = env.generate(click, rate_per_s=500, uid="clicks")
    clicks.key_by("page").process(PerPage(), uid="per-page").write_json(sys.argv[1], uid="counts")
