"""The page in a real browser: by keyboard, in the dark, on a telephone, and with hostile texts."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from opened_page import HOSTILE, Opened, expect
from watched_jobs import SPLIT, Watched, watched

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]

PARTS = (
    *("Overview", "Subtasks", "Sources and sinks", "Checkpoints", "Failures", "State"),
    *("Profile", "Output", "Logs", "Configuration"),
)


def test_the_page_shows_the_job_as_it_runs(job: Watched, window: Opened) -> None:
    """Graph, table and charts have the job's numbers, which move; the secret has left the address."""
    page = window.at(job.url)
    assert page.url == f"{job.file.address}/"
    expect(page.get_by_role("heading", level=1)).to_have_text("ticks")
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("svg.graph .vertex").nth(1)).to_have_class(re.compile("busy"))
    expect(page.locator("svg.graph .vertex").nth(0)).to_have_class(re.compile("waits"))
    expect(page.locator(".strip").first).to_contain_text("is the bottleneck")
    table = page.get_by_role("region", name="The operators and what they do now")
    row = table.get_by_role("row").filter(has_text="count -> text -> out")
    expect(row).to_contain_text(re.compile(r"9\d %|100 %"))
    expect(page.locator(".uplot canvas").first).to_be_visible()
    cell = row.get_by_role("cell").nth(3)
    before = cell.text_content()
    expect(cell).not_to_have_text(before)
    page.reload()
    expect(page.locator("#connection")).to_have_text("live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_part_is_for_everybody(job: Watched, browser: Any, scheme: str, width: int) -> None:
    """In light and dark, wide and narrow: axe-core finds nothing, and the page does not scroll sideways."""
    window = Opened(browser, color_scheme=scheme, viewport={"width": width, "height": 800})
    window.at(job.url)
    job.sky.text = "one failure to show"
    for name in PARTS:
        window.tab(name)
        expect(window.page.get_by_role("tabpanel")).to_be_visible()
        if name == "Failures":
            expect(window.page.get_by_text("ValueError: one failure to show").first).to_be_visible()
        assert window.hindrances() == [], name
        assert window.wide() <= 0, name
    window.page.get_by_role("button", name="Stop...").click()
    assert window.hindrances() == []
    window.context.close()
    assert window.wrong == []


def test_all_is_done_by_keyboard(job: Watched, window: Opened) -> None:
    """Tabs by arrows, a vertex by Enter, a dialog by Escape; the focus is seen."""
    page = window.at(job.url)
    page.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Subtasks")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.locator("svg.graph .vertex").nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Subtasks")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#vertex")).to_have_value("1")
    expect(page.get_by_role("table")).to_contain_text("process")
    page.get_by_role("button", name="Stop...").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_checkpoint_opens_with_its_path(job: Watched, window: Opened) -> None:
    """The list says why; a click shows each subtask's times."""
    window.at(job.url)
    window.tab("Checkpoints")
    row = window.page.get_by_role("row").filter(has_text="completed").first
    expect(row).to_contain_text("4 of 4")
    row.get_by_role("button").click()
    expect(window.page.get_by_role("heading", name=re.compile(r"^Checkpoint \d+$"))).to_be_visible()
    expect(window.page.get_by_role("region", name="Times of each subtask")).to_contain_text("'ticks'[0]")


def test_state_is_looked_up_by_key(job: Watched, window: Opened) -> None:
    """The value now, and a sentence where there is none; sizes are those of the newest checkpoint."""
    page = window.at(job.url)
    window.tab("State")
    page.get_by_label("Key").fill("0")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("main pre")).to_have_text(re.compile(r"^\d+$"))
    page.get_by_label("Key").fill("4711")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("main pre")).to_contain_text("under key 4711")
    expect(page.get_by_role("row").filter(has_text="count -> text -> out")).to_contain_text(
        re.compile(r"\d+ B")
    )
    window.wrong = [each for each in window.wrong if "404" not in each]


def test_samples_are_drawn(job: Watched, window: Opened) -> None:
    """The function that sleeps is found, in the graph and in the table."""
    page = window.at(job.url)
    window.tab("Profile")
    page.get_by_role("button", name="Sample for").click()
    expect(page.locator("#part [role=status]")).to_contain_text("Done")
    expect(page.locator("svg.flames g").filter(has_text="Slow.process").first).to_be_visible()
    table = page.get_by_role("region", name="Functions by the time")
    row = table.get_by_role("row").filter(has_text="Slow.process")
    expect(row.first).to_contain_text("(uid 'count')")
    assert window.hindrances() == []


def test_checkpoints_are_drawn(job: Watched, window: Opened) -> None:
    """Once there are two: how long they took, and how large they were."""
    window.at(job.url)
    window.tab("Checkpoints")
    expect(window.page.get_by_role("img", name="Duration of completed checkpoints")).to_be_visible()
    expect(window.page.locator(".chart canvas")).to_have_count(2)


@pytest.mark.parametrize("text", HOSTILE, ids=["markup", "end of markup", "control characters", "a megabyte"])
def test_hostile_texts_do_no_harm(job: Watched, window: Opened, text: str) -> None:
    """They are shown as texts, cut, with their control characters written out; nothing of them runs."""
    page = window.at(job.url)
    job.sky.text = text
    window.tab("Failures")
    expect(page.locator("article strong").first).to_contain_text(
        f"ValueError: {text[:12]}" if text[0] != "\x1b" else "ValueError: "
    )
    expect(page.locator("#state")).to_have_text("running")
    page.locator("summary").first.click()
    assert page.locator("script").count() == 2
    assert page.locator("img, article svg").count() == 0
    expect(page).to_have_title("ticks: running")
    shown = page.locator("body").inner_text()
    assert len(shown) < 50_000
    assert re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", shown) is None
    assert window.wide() <= 0


def test_hostile_names_do_no_harm(tmp_path: Path, window: Opened) -> None:
    """A job may be called anything, and an operator nearly so; both are found on all parts, as texts."""
    name = "<img src=x onerror=\"document.title='harmed'\">&amp; 'ticks'"
    uid = "<img src=x onerror=alert(1)>;&lt;\"'`${7*7}%2F?#é"
    with watched(tmp_path, name, uid) as job:
        page = window.at(job.url)
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator(".strip").first).to_contain_text(f"'{uid} -> text -> out' is the bottleneck")
        page.get_by_role("button", name=uid[:20]).first.click()
        expect(page.locator("#vertex option:checked")).to_contain_text(uid)
        window.tab("Sources and sinks")
        splits = page.get_by_role("region", name="Splits that are read now")
        expect(splits.get_by_role("row").filter(has_text=SPLIT).first).to_contain_text("1.5 s")
        channels = page.get_by_role("region", name="Channels between subtasks")
        expect(channels.get_by_role("row").filter(has_text=uid[:20]).first).to_be_visible()
        expect(page.get_by_role("region", name="Sinks")).to_contain_text(uid)
        window.tab("State")
        page.get_by_label("Key").fill("0")
        page.get_by_role("button", name="Look").click()
        expect(page.locator("main pre")).to_have_text(re.compile(r"^\d+$"))
        page.get_by_role("button", name="Cancel...").click()
        expect(page.get_by_role("dialog")).to_contain_text(name)
        assert page.locator("img").count() == 0


def test_actions_are_confirmed_and_told(job: Watched, window: Opened) -> None:
    """Each repeats the job's name; what came of it is shown, and so is why nothing came of it."""
    page = window.at(job.url)
    page.get_by_role("button", name="Savepoint...").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Savepoint of job ticks")
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Savepoint...").click()
    dialog.get_by_role("button", name="Savepoint ticks").click()
    expect(page.locator("#outcomes")).to_contain_text("savepoint came to nothing")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#outcomes p")).to_have_count(0)
    page.get_by_role("button", name="Cancel...").click()
    dialog.get_by_role("button", name="Cancel ticks").click()
    expect(page.locator("#state")).to_have_text("cancelled")
    expect(page.locator("#connection")).to_contain_text("the job is over")
    expect(page.get_by_role("button", name="Stop...")).to_be_disabled()


def test_a_rescale_shows_the_new_plan(job: Watched, window: Opened) -> None:
    """The page follows the job to another parallelism."""
    page = window.at(job.url)
    page.get_by_role("button", name="Rescale...").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Subtasks of operators").fill("3")
    dialog.get_by_role("button", name="Rescale ticks").click()
    expect(page.locator("#outcomes")).to_contain_text("rescale: 3", timeout=60_000)
    expect(page.locator("svg.graph .vertex").nth(1)).to_contain_text("x 3")
    window.tab("Failures")
    expect(page.get_by_role("heading", name=re.compile("rescaled"))).to_be_visible()


def test_how_much_the_job_logs_is_changed(job: Watched, window: Opened) -> None:
    """The level is chosen from those that there are, for a logger or for all."""
    page = window.at(job.url)
    page.get_by_role("button", name="Log level...").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Least level").select_option("error")
    dialog.get_by_label("Logger, with those below it").fill("of.the-page")
    dialog.get_by_role("button", name="Log level ticks").click()
    expect(page.locator("#outcomes")).to_contain_text("log-level: of.the-page error")
    assert logging.getLogger("of.the-page").level == logging.ERROR


def test_without_the_secret_nothing_is_shown(job: Watched, window: Opened) -> None:
    """The page asks for it, and goes on once it is given; a wrong one is asked for again."""
    page = window.page
    page.goto(job.file.address)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert "count" not in page.locator("body").inner_text()
    dialog.get_by_label("Secret").fill("wrong")
    dialog.get_by_role("button", name="Open").click()
    expect(page.locator("#connection")).to_have_text("the secret is not the job's")
    dialog.get_by_label("Secret").fill(job.file.secret)
    dialog.get_by_role("button", name="Open").click()
    expect(page.locator("#connection")).to_have_text("live")
    window.wrong = [each for each in window.wrong if "401" not in each]


def test_a_page_of_another_site_gets_nothing(job: Watched, browser: Any) -> None:
    """It can neither frame the page, nor read an answer, nor send an action."""
    context = browser.new_context()
    page = context.new_page()
    page.route(
        "http://evil.test/**", lambda route: route.fulfill(body="<h1>evil</h1>", content_type="text/html")
    )
    page.goto("http://evil.test/")
    attempt = """async ([address, secret]) => {
        const tried = async (path, options) =>
            fetch(address + path, options).then(a => a.status, e => "refused");
        const frame = document.createElement("iframe");
        frame.src = address + "/";
        document.body.append(frame);
        await new Promise(done => { frame.onload = done; setTimeout(done, 3000); });
        return [
            await tried("/v1/snapshot", { headers: { Authorization: `Bearer ${secret}` } }),
            await tried("/v1/snapshot", {}),
            await tried("/v1/cancel", { method: "POST", mode: "no-cors", body: "{}" }),
            frame.contentDocument === null,
        ];
    }"""
    read, plain, _, framed = page.evaluate(attempt, [job.file.address, job.file.secret])
    assert (read, plain, framed) == ("refused", "refused", True)
    assert job.gets("/v1/snapshot")["state"] == "running"
    context.close()


def test_links_to_other_pages_are_no_scripts(job: Watched, browser: Any) -> None:
    """Spark's page is linked; an address that a browser would run is not."""
    window = Opened(browser)
    window.page.route("**/v1/events", lambda route: route.fulfill(status=503, body="{}"))
    status = job.gets("/v1/snapshot")
    status["links"] = {"spark_ui": "http://127.0.0.1:4040", "harm": "javascript:alert(1)"}
    window.page.route("**/v1/snapshot", lambda route: route.fulfill(body=json.dumps(status)))
    window.page.goto(job.url)
    link = window.page.locator("#links a")
    expect(link).to_have_count(1)
    expect(link).to_have_attribute("href", "http://127.0.0.1:4040")
    expect(link).to_have_text("spark ui")
    window.context.close()


def test_pages_beyond_the_limit_poll(job: Watched, browser: Any) -> None:
    """The page says so, and shows the job all the same."""
    window = Opened(browser)
    window.page.route(
        "**/v1/events",
        lambda route: route.fulfill(
            status=503, body=json.dumps({"error": {"kind": "OperatingError", "message": "full"}})
        ),
    )
    window.page.goto(job.url)
    expect(window.page.locator("#connection")).to_have_text("every 5 s")
    expect(window.page.locator("svg.graph .vertex")).to_have_count(2)
    window.context.close()
