"""Counts clicks per page, and remembers who came last; the second version of the program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import headgate as hg

Click = dict[str, Any]
PAGES = 50


@dataclass(frozen=True)
class Visits:
    """What is known of a page: a field has another name, one is new."""

    count: Annotated[int, hg.alias("clicks")] = 0
    last_user: str | None = None


class PerPage(hg.KeyedProcessFunction[str, Click, Click]):
    """Emits each page's running count and the user before this one."""

    visits: hg.ValueState[Visits] = hg.value_state(default=Visits())
    users: hg.MapState[str, int] = hg.map_state()

    def process(self, click: Click, ctx: hg.KeyedContext[str]) -> Iterator[Click]:
        before = self.visits.value
        self.visits.value = replace(before, count=before.count + 1, last_user=click["user"])
        self.users[click["user"]] = self.users.get(click["user"], 0) + 1
        yield {"n": click["n"], "page": ctx.key, "clicks": before.count + 1, "after": before.last_user}


def click(number: int) -> Click:
    """The click with this number."""
    return {"n": number, "page": f"page-{number * 7 % PAGES}", "user": f"user-{number % 11}"}


def build(env: hg.Environment) -> None:
    """Clicks that never end, counted into the folder that the command line names."""
    clicks = env.generate(click, rate_per_s=500, uid="clicks")
    clicks.key_by("page").process(PerPage(), uid="per-page").write_json(sys.argv[1], uid="counts")
