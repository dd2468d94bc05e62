"""The right to lead: its table, and a search of all orders of events and times against a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.common.errors import ConfigError
from headgate.core.leadership import LEADERSHIP_MOVES, LeadershipState, LeadershipTerm

PAGE = Path(__file__).parents[3] / "docs" / "machines" / "leadership.md"
LEASE, MARGIN = 6, 2
LOST = LeadershipState.LOST


def a_leader(sent_ms: int = 0) -> LeadershipTerm:
    """A term that was just granted."""
    term = LeadershipTerm("j", LEASE, MARGIN)
    assert term.granted(sent_ms, sent_ms)
    return term


def test_documented_moves_are_the_moves_of_leadership() -> None:
    """Every legal move is in the page, in the code's order, and no other."""
    table = re.search(
        r"\| state \| event \| next state \|\n\| ---.*\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8")
    )
    assert table is not None
    moves = [f"| {a.value} | {event.value} | {b.value} |" for (a, event), b in LEADERSHIP_MOVES.items()]
    assert table[1].splitlines() == moves


def test_commits_stop_a_margin_before_the_lease_can_be_taken() -> None:
    """The last moment for a commit is one margin, not less, before the deadline."""
    term = a_leader()
    assert [term.may_commit(now) for now in (0, 3, 4, 5, 6)] == [True, True, False, False, False]
    assert (term.tick(5), term.tick(6), term.state) == (False, True, LOST)


def test_a_proof_counts_from_when_it_was_sent() -> None:
    """An answer that took long prolongs less; one that comes behind a newer one changes nothing."""
    term = a_leader()
    term.renewed(sent_ms=1, now_ms=5)
    assert term.next_wakeup() == 1 + LEASE
    term.renewed(sent_ms=4, now_ms=6)
    term.renewed(sent_ms=2, now_ms=6)
    assert term.next_wakeup() == 4 + LEASE


def test_a_proof_that_arrives_behind_the_deadline_ends_the_term() -> None:
    """Between deadline and proof somebody may have taken over, so the proof proves nothing."""
    term = a_leader()
    term.renewed(sent_ms=5, now_ms=6)
    assert (term.state, term.may_commit(6)) == (LOST, False)


def test_a_grant_that_took_a_lease_proves_nothing() -> None:
    """The candidate stays one, and the next round may win."""
    term = LeadershipTerm("j", LEASE, MARGIN)
    assert not term.granted(0, LEASE)
    assert term.granted(LEASE, LEASE + 1)


def test_suspended_leader_waits_for_a_proof() -> None:
    """No commit from the break of the connection to the next proof."""
    term = a_leader()
    term.suspended(1)
    assert not term.may_commit(1)
    term.renewed(2, 2)
    assert term.may_commit(2)
    term.suspended(3)
    assert term.tick(8)


def test_what_has_lapsed_is_regained_by_a_grant_only() -> None:
    """A late proof proves nothing, time changes nothing, a grant counts from when it was asked for."""
    term = LeadershipTerm("j", LEASE, MARGIN, regains=True)
    assert term.granted(0, 0)
    term.renewed(sent_ms=5, now_ms=6)
    assert (term.state, term.next_wakeup(), term.tick(50)) == (LeadershipState.LAPSED, None, False)
    term.renewed(sent_ms=50, now_ms=50)
    assert not term.may_commit(50)
    assert not term.granted(sent_ms=50, now_ms=50 + LEASE)
    assert term.granted(sent_ms=57, now_ms=58)
    assert (term.may_commit(58), term.next_wakeup()) == (True, 57 + LEASE)
    term.tick(70)
    assert (term.expired("another leads"), term.state) == (True, LOST)


@pytest.mark.parametrize("margin", [-1, LEASE])
def test_a_margin_must_leave_a_lease(margin: int) -> None:
    """A lease without time for commits is refused."""
    with pytest.raises(ConfigError, match="expected a margin below the lease"):
        LeadershipTerm("j", LEASE, margin)


class Model:
    """What may be believed: the last proof, what spoke against it since, and whether it is over."""

    def __init__(self, regains: bool) -> None:
        self.regains = regains
        self.until: int | None = None
        self.doubted = self.over = self.lapsed = False

    def hear(self, event: str, sent: int, now: int) -> None:
        if event == "granted" and self.until is not None and not self.lapsed:
            return
        if self.until is not None and now >= self.until and not self.lapsed and event != "resigned":
            if event == "expired" or not self.regains:
                self.over = True
            else:
                self.lapsed = True
                return
        if self.over:
            return
        if self.lapsed:
            if event == "granted" and now < sent + LEASE:
                self.until, self.doubted, self.lapsed = sent + LEASE, False, False
            self.over = event in ("resigned", "expired")
            return
        if event == "granted" and self.until is None and now < sent + LEASE:
            self.until = sent + LEASE
        elif event == "renewed" and self.until is not None:
            self.until, self.doubted = max(self.until, sent + LEASE), False
        elif event == "suspended" and self.until is not None:
            self.doubted = True
        elif event == "resigned" or (event == "expired" and self.until is not None):
            self.over = True

    def may_commit(self, now: int) -> bool:
        believed = self.until is not None and not self.over and not self.doubted and not self.lapsed
        return believed and self.until is not None and now < self.until - MARGIN


EVENTS = ["granted", "renewed", "suspended", "expired", "resigned", "tick"]


def replay(story: tuple[tuple[str, int, int], ...], regains: bool) -> tuple[LeadershipTerm, Model, int, int]:
    """Both after the same events; with the time, and how often the end was reported."""
    term, model, now, ends = LeadershipTerm("j", LEASE, MARGIN, regains), Model(regains), 0, 0
    for event, passed, took in story:
        now += passed
        sent = max(0, now - took)
        before = term.state
        if event in ("granted", "renewed"):
            getattr(term, event)(sent, now)
        elif event == "suspended":
            term.suspended(now)
        elif event == "tick":
            ends += term.tick(now)
        elif event == "expired":
            ends += term.expired()
        else:
            term.resigned()
        ends += event in ("renewed", "suspended") and before is not LOST and term.state is LOST
        model.hear(event, sent, now)
    return term, model, now, ends


@pytest.mark.parametrize("regains", [False, True])
def test_every_order_of_events_and_times(regains: bool) -> None:
    """Six events deep, with short and long times between and answers that took none or long."""
    steps = [
        (event, passed, took)
        for event in EVENTS
        for passed in (0, 1, 2, 3, 5)
        for took in ((0, 1, 4) if event in ("granted", "renewed") else (0,))
    ]
    allowed = visited = 0
    frontier: list[tuple[tuple[str, int, int], ...]] = [()]
    seen: set[object] = set()
    for _ in range(6):
        following = []
        for story in frontier:
            for step in steps:
                term, model, now, ends = replay((*story, step), regains)
                key = (term.state, model.over, model.lapsed, model.doubted, (model.until or 0) - now, ends)
                if key in seen:
                    continue
                seen.add(key)
                visited += 1
                following.append((*story, step))
                assert ends <= 1
                for later in range(now, now + 2 * LEASE):
                    assert term.may_commit(later) == model.may_commit(later), (*story, step)
                    allowed += term.may_commit(later)
                assert (term.state is LOST) == (model.over)
                assert (term.state is LeadershipState.LAPSED) == (model.lapsed and not model.over)
        frontier = following
    # Stories that differ in the past only are one: what is left is every state there is.
    assert visited > 50
    assert allowed >= sum(range(1, LEASE - MARGIN + 1))
