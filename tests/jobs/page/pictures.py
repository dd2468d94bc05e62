"""Takes the pictures of docs/page.md anew: `python tests/jobs/page/pictures.py` in the checkout.

Nothing tests that the pictures are the newest; they show what the page is about.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import real_browser
from watched_jobs import SKY, Slow, Ticking, Watched, Weather, started

import headgate as hg
from headgate.testing import MiniCluster

DOCS = Path(__file__).resolve().parents[3] / "docs"
WATCHED_S = 40
NUMBER = -1


def environment(folder: Path) -> hg.Environment:
    """Orders and payments, scored by key, of which the large ones go to a second file."""
    SKY[NUMBER] = Weather(0.0003)
    config = {
        "rest.enabled": True, "pipeline.max-parallelism": 64, "headgate.progress": "off",
        "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 100,
        "execution.checkpointing.unaligned.enabled": True,
    }  # fmt: skip
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="5s", storage=str(folder / "checkpoints"))
    orders = env.from_source(Ticking(), uid="orders").with_event_time(now_ms, out_of_orderness="2s")
    payments = env.from_source(Ticking(), uid="payments").with_event_time(now_ms, out_of_orderness="2s")
    scored = orders.union(payments).key_by(lambda n: n % 7).process(Slow(NUMBER), uid="score")
    scored.write_json(str(folder / "all"), uid="all")
    large = scored.rebalance().filter(lambda n: n % 10 == 0, uid="large")
    large.write_json(str(folder / "large"), uid="alerts")
    return env


# No picture shows a path of the machine on which it was taken.
Slow.process.__code__ = Slow.process.__code__.replace(co_filename="/home/ada/scores.py")


def now_ms(_: int) -> int:
    """The time of a record, which is new."""
    return int(time.time() * 1000)


def take(job: Watched) -> None:
    """Pictures in light and dark, wide and narrow."""
    time.sleep(WATCHED_S)
    SKY[NUMBER].text = "no price for order 7"
    time.sleep(WATCHED_S)
    with real_browser.opened() as browser:
        for name, tab, scheme, width in (
            ("overview", "Overview", "light", 1280),
            ("failures", "Failures", "dark", 1280),
            ("narrow", "Overview", "light", 400),
        ):
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
            page.goto(job.url)
            page.get_by_role("tab", name=tab).click()
            time.sleep(3)
            page.screenshot(path=DOCS / f"page-{name}.png", full_page=width > 400)


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as made,
        started(environment(Path(made)), "scores", SKY.setdefault(NUMBER, Weather())) as found,
    ):
        take(found)
