"""A page in a browser, what went wrong in it, and texts that must do no harm there."""

from __future__ import annotations

from typing import Any

import real_browser

PATIENCE_MS = 30_000
HOSTILE = [
    "<script>document.title='harmed'</script><img src=x onerror=\"document.title='harmed'\">",
    "</pre></script><svg onload=alert(1)>javascript:alert(1)//",
    "\x1b[31mred\x00\x07 \u202eturned\u2066 \ud800 half \ufffe {{7*7}} ${7*7} ' \" `",
    "long" * 250_000,
]


def expect(what: Any) -> Any:
    """Playwright's assertions, which wait."""
    from playwright import sync_api  # it is not there where no browser is

    sync_api.expect.set_options(timeout=PATIENCE_MS)
    return sync_api.expect(what)


class Opened:
    """A page of a browser, and what went wrong in it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        self.page.on(
            "console",
            lambda told: self.wrong.append(told.text) if told.type in ("error", "warning") else None,
        )

    def at(self, url: str) -> Any:
        """The page, once it shows something."""
        self.page.goto(url)
        expect(self.page.locator("#connection")).to_have_text("live")
        expect(self.page.locator("svg.graph .vertex")).to_have_count(2)
        return self.page

    def tab(self, name: str) -> None:
        """Turn to a part of the page."""
        self.page.get_by_role("tab", name=name).click()
        expect(self.page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")

    def wide(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def hindrances(self) -> list[str]:
        """What axe-core finds, and where."""
        self.page.evaluate(real_browser.axe() + ";0")
        return list(
            self.page.evaluate(
                "axe.run().then(r => r.violations.map(v => `${v.id}: ${v.nodes.map(n => n.target)}`))"
            )
        )
