"""How much is read and how long the rest takes: what is shown of it, and what is not known."""

from __future__ import annotations

from collections.abc import ItemsView
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.api.source import InputLeft
from headgate.display.time_to_go import PACE_MS_MIN, TimeToGo


def told(*lefts: int | None, uid: str = "in") -> TimeToGo:
    """After a second between any two."""
    reading = TimeToGo()
    for second, left in enumerate(lefts):
        reading.update({uid: None if left is None else InputLeft(bytes=left)}, second * 1000)
    return reading


def test_nothing_is_said_before_something_is_known() -> None:
    """Of no source, of one that does not know its end, and of a pace too early."""
    assert TimeToGo().text() is None
    assert told(None).text() is None
    assert told(100, 90).text() == "10% read, - to go"
    assert told(100, 90, 80).text() == "20% read, 8 s to go"
    assert told(100, 100, 100).text() == "0% read, - to go"
    assert PACE_MS_MIN == 2_000


def test_all_is_read_only_when_nothing_is_left() -> None:
    """And an input without anything is read."""
    assert told(100_000, 1).text() == "99% read, - to go"
    assert told(100, 50, 0).text() == "all read"
    assert told(0).text() == "all read"


def test_the_slowest_source_is_the_job_s() -> None:
    """In share and in time; one that is not known makes all of it unknown."""
    reading = TimeToGo()
    for second in range(4):
        left = {"fast": InputLeft(records=40 - 10 * second), "slow": InputLeft(bytes=100 - second)}
        reading.update(left, second * 1000)
    assert reading.text() == "3% read, 1 min 37 s to go"
    assert reading.to_go_ms == 97_000
    reading.update({"fast": InputLeft(records=0), "slow": InputLeft()}, 5_000)
    assert (reading.share, reading.to_go_ms) == (None, None)


def test_a_job_that_has_finished_has_read_all() -> None:
    """Although the last report was of the moment before; where nothing was known, nothing is."""
    reading = told(100, 50, 30)
    reading.finished()
    assert reading.text() == "all read"
    unknown = told(None)
    unknown.finished()
    assert unknown.text() is None


def test_a_restart_reads_a_part_again() -> None:
    """The share falls, and the pace is not known for a while: else what came back would be progress."""
    reading = told(100, 80, 60)
    reading.restarted()
    reading.update({"in": InputLeft(bytes=90)}, 4_000)
    assert reading.text() == "10% read, - to go"
    reading.update({"in": InputLeft(bytes=70)}, 6_000)
    assert reading.text() == "30% read, 7 s to go"


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    """What was fast long ago does not count; and hundreds of reports a second are as good as one."""
    assert told(*range(10_000, 5_000, -100), *range(5_000, 4_960, -1)).to_go_ms == 4_961_000
    reading = TimeToGo()
    for ms in range(0, 10_000, 5):
        reading.update({"in": InputLeft(records=100_000 - ms)}, ms)
    assert reading.to_go_ms is not None
    assert abs(reading.to_go_ms - 90_000) < 100


def test_a_source_that_reads_beyond_its_end_is_at_its_end() -> None:
    """Such as one that counts a file which has grown: no share above 1, and no time below 0."""
    for left in (InputLeft(records=-20), InputLeft(bytes=-20)):
        reading = told(100, 50)
        for second in range(2, 6):
            reading.update({"in": left}, second * 1000)
        assert (reading.share, reading.to_go_ms) == (1, 0)


def test_a_source_that_tells_another_unit_begins_anew() -> None:
    """A thousand records that were left are not the whole of fifty bytes, and no pace of them."""
    reading = TimeToGo()
    for second in range(4):
        reading.update({"in": InputLeft(records=1000 - second)}, second * 1000)
    reading.update({"in": InputLeft(bytes=50)}, 4_000)
    assert reading.text() == "0% read, - to go"
    for second in range(5, 8):
        reading.update({"in": InputLeft(bytes=90 - 10 * second)}, second * 1000)
    assert reading.text() == "60% read, 2 s to go"


def test_a_share_may_be_read_in_the_midst_of_a_report() -> None:
    """By the thread that displays it: it is not known before the sources are."""

    class Midst(dict[str, InputLeft | None]):
        def items(self) -> ItemsView[str, InputLeft | None]:
            shares.append(reading.share)
            return super().items()

    class Sources(dict[str, Any]):
        def setdefault(self, uid: str, source: Any = None) -> Any:
            shares.append(reading.share)
            return super().setdefault(uid, source)

    reading, shares = TimeToGo(), list[float | None]()
    reading._sources = Sources()
    reading.update(Midst({"in": InputLeft(bytes=10)}), 0)
    assert (shares, reading.share) == ([None, None], 0)


@given(st.lists(st.integers(-9, 1000), min_size=1, max_size=20))
def test_the_share_is_a_share(lefts: list[int]) -> None:
    """Whatever is left, and however it moves."""
    reading = told(*lefts)
    assert reading.share is not None
    assert 0 <= reading.share <= 1
    assert (reading.to_go_ms == 0) == (lefts[-1] <= 0)
