"""The logs of a job on its page, in a real browser: chosen, searched, by keyboard, and with hostile texts."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from opened_page import HOSTILE, Opened, expect
from test_kept_pages import shown
from watched_jobs import Watched, watched

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]
LOG = logging.getLogger("headgate.job.of-the-test")


def rows(page: Any) -> Any:
    """The lines that are shown."""
    return page.get_by_role("region", name="Log lines").locator("tbody tr")


def test_lines_are_chosen_and_searched_by_keyboard(job: Watched, window: Opened) -> None:
    """By level, process and text; how many fit is told to screen readers, and axe-core finds nothing."""
    page = window.at(job.url)
    LOG.warning("the one and only")
    LOG.error("with a traceback", exc_info=ValueError("of the driver"))
    page.get_by_role("tab", name="Output").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Logs")).to_be_focused()
    line = rows(page).filter(has_text="the one and only")
    expect(line).to_contain_text("WARNING")
    expect(line).to_contain_text(re.compile(r"driver, \d+"))
    page.keyboard.press("Tab")  # to the panel's first control
    expect(page.get_by_label("Process")).to_be_focused()
    page.get_by_label("Least level").select_option("error")
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#part [role=status]")).to_have_text("1 line fits.")
    page.get_by_text("More", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#part pre")).to_contain_text("ValueError: of the driver")
    assert window.hindrances() == []
    page.get_by_label("Least level").select_option("debug")
    page.get_by_label("Text").fill("ONE AND ONLY")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Process").select_option("workers")
    expect(rows(page)).to_have_count(0)


def test_a_table_held_still_does_not_move(job: Watched, window: Opened) -> None:
    """New lines come when it is let go."""
    page = window.at(job.url)
    window.tab("Logs")
    LOG.warning("before")
    expect(rows(page).filter(has_text="before")).to_have_count(1)
    page.get_by_label("hold still").check()
    LOG.warning("meanwhile")
    job.waits("/v1/logs?text=meanwhile", lambda logs: logs["lines"])
    page.wait_for_timeout(2_500)
    expect(rows(page).filter(has_text="meanwhile")).to_have_count(0)
    page.get_by_label("hold still").uncheck()
    expect(rows(page).filter(has_text="meanwhile")).to_have_count(1)


def test_hostile_lines_do_no_harm(job: Watched, window: Opened) -> None:
    """They are shown as texts, cut, with their control characters written out."""
    page = window.at(job.url)
    window.tab("Logs")
    for text in HOSTILE:
        LOG.warning("%s", text, exc_info=ValueError(text))
        logging.getLogger(f"headgate.{text[:100]}").warning("by name")
    expect(rows(page).filter(has_text="by name")).to_have_count(len(HOSTILE))
    for each in page.get_by_text("More", exact=True).all():
        each.click()
    assert page.locator("script").count() == 2
    assert page.locator("img, #part svg").count() == 0
    expect(page).to_have_title("ticks: running")
    found = page.locator("body").inner_text()
    assert len(found) < 100_000
    assert re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", found) is None
    assert window.wide() <= 0


def test_lines_of_a_job_that_is_over_are_there(tmp_path: Path, window: Opened) -> None:
    """As they were kept with its page."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
        LOG.warning("the last words")
    with shown(str(tmp_path / "checkpoints")) as url:
        window.page.goto(url)
        expect(window.page.locator("#connection")).to_contain_text("the job is over")
        window.tab("Logs")
        expect(rows(window.page).filter(has_text="the last words")).to_have_count(1)
