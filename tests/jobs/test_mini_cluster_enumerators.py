"""Split enumerators that raise: the source is named, the job ends or restarts, the driver survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, environment

import headgate as hg
from headgate.connectors.collection import CollectionSource

CLOSED: list[str] = []
"""Places of the enumerators that were closed."""


class Troubled(CollectionSource[int]):
    """Ten numbers in two splits, whose enumerator raises at `place`."""

    def __init__(self, place: str) -> None:
        super().__init__(list(range(10)), 2)
        self.place = place

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        """Fail here, or hand out one that fails."""
        if self.place == "create":
            raise LookupError("no such catalogue")
        return TroubledEnumerator(super().create_enumerator(restored), self.place)


class WrongAtFirst(CollectionSource[int]):
    """Ten numbers in two splits; the first split of the first attempt has a position that cannot be sent."""

    def __init__(self) -> None:
        super().__init__(list(range(10)), 2)
        self.attempts = 0

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        """Hand out the wrong one at first."""
        self.attempts += 1
        sound = super().create_enumerator(restored)
        return TroubledEnumerator(sound, "position") if self.attempts == 1 else sound


class TroubledEnumerator(hg.SplitEnumerator):
    """Raises at one place and is sound elsewhere."""

    def __init__(self, sound: hg.SplitEnumerator, place: str) -> None:
        self._sound, self._place = sound, place

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        if self._place == "next":
            raise LookupError("no such catalogue")
        if self._place == "position":
            return [hg.Split("wrong", lambda: None)]
        return self._sound.next_splits(subtask)

    def snapshot(self) -> Any:
        return self._sound.snapshot()

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._place == "complete":
            raise LookupError("no such catalogue")

    def close(self) -> None:
        CLOSED.append(self._place)
        if self._place == "close":
            raise LookupError("no such catalogue")


@pytest.mark.parametrize("place", ["create", "next"])
def test_the_source_is_named(place: str) -> None:
    """An enumerator's error carries the source's uid and the user's own traceback."""
    env = environment(config=RESTART_AT_ONCE)
    with pytest.raises(hg.UserFunctionError, match=r"(?s)'numbers'.*LookupError: no such catalogue"):
        env.from_source(Troubled(place), uid="numbers").map(str).collect()


def test_a_position_that_cannot_be_sent_is_a_failure_of_the_attempt() -> None:
    """The job restarts, as after any failure, and its driver survives."""
    env = environment(config=RESTART_AT_ONCE)
    source = WrongAtFirst()
    assert sorted(env.from_source(source, uid="numbers").collect()) == list(range(10))
    assert source.attempts == 2


def test_a_failure_when_told_of_a_checkpoint_is_a_failure_of_the_attempt(tmp_path: Path) -> None:
    """The strategy gives up in the end, and says why."""
    env = environment(config=RESTART_AT_ONCE).checkpoints(every="10ms", storage=str(tmp_path))
    stream = env.from_source(Troubled("complete"), uid="numbers").map(str)
    with pytest.raises(hg.UserFunctionError, match="at the completion of checkpoint"):
        stream.write_json(str(tmp_path / "out"))
        env.execute("job")


def test_a_failure_to_close_stops_nothing() -> None:
    """The result is there all the same."""
    env = environment()
    assert sorted(env.from_source(Troubled("close"), uid="numbers").collect()) == list(range(10))


def test_where_one_cannot_be_created_those_before_it_are_closed() -> None:
    """Nobody else knows them: what they have opened would stay open."""
    env = environment(config={"restart-strategy.type": "none"})
    CLOSED.clear()
    sound = env.from_source(Troubled("nowhere"), uid="sound").map(str)
    with pytest.raises(hg.UserFunctionError, match=r"'broken'.*in create_enumerator"):
        sound.union(env.from_source(Troubled("create"), uid="broken").map(str)).collect()
    assert CLOSED == ["nowhere"]
