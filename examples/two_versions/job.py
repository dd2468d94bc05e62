"""Counts visits per page with whatever version of attrs it brings; run.py runs two of these in one Spark.

    headgate run examples/two_versions/job.py --requirements examples/two_versions/old.txt -- FOLDER VISITS

It goes on from its last savepoint in FOLDER, and stops with the next one after some VISITS.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attr

import headgate as hg

PAGES = ("home", "search", "basket")


@attr.s(auto_attribs=True)
class Visit:
    """What flows: a class that attrs makes, of the version that this job brings."""

    number: int
    page: str


class Visits(hg.KeyedProcessFunction):
    """How often each page was visited."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: Any) -> None:
        """Tell the process, so that it can be killed."""
        (self.folder / "worker.pid").write_text(str(os.getpid()))

    def process(self, visit: Visit, context: Any) -> Iterator[dict[str, Any]]:
        """One more."""
        self.count.value += 1
        yield {
            "page": context.key,
            "count": self.count.value,
            "attrs": attr.__version__,
            "framework": hg.__file__,
            "pid": os.getpid(),
        }


def main(folder: Path, visits: int) -> None:
    """Take some visits in, and stop with a savepoint."""
    env = hg.Environment(parallelism=1)
    env.checkpoints("200ms", storage=str(folder / "checkpoints"))
    made = env.generate(lambda n: Visit(n, PAGES[n % len(PAGES)]), rate_per_s=2_000, uid="visits")
    counts = made.key_by(lambda visit: visit.page).process(Visits(folder), uid="counts")
    counts.write_json(str(folder / "out"), uid="out")
    job = env.execute_async(folder.name, restore_from=newest(folder / "savepoints"))
    taken = 0
    while taken < visits:
        time.sleep(0.1)
        taken = max((vertex.records_out for vertex in job.status().vertices), default=0)
    job.stop(str(folder / "savepoints"))


def newest(savepoints: Path) -> str | None:
    """The last one that was taken."""
    found = sorted(savepoints.glob("*"), key=lambda path: path.stat().st_mtime)
    return str(found[-1]) if found else None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
