"""What a program may write as a time to live, and what it is told when it may not."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import headgate as hg
from headgate.api.declared.keyed_states import declared_state


@pytest.mark.parametrize(
    ("written", "ms"), [("7d", 7 * hg.DAYS), ("1s", 1_000), (1, 1), (2 * hg.HOURS, 7_200_000)]
)
def test_durations_are_written_as_everywhere(written: Any, ms: int) -> None:
    """Text with a unit, or ms."""
    assert hg.StateTtl(written).duration_ms == ms


def test_the_defaults_are_those_of_the_field() -> None:
    """Writes refresh, what is over is never seen, the wall clock decides, snapshots leave it out."""
    ttl = hg.StateTtl("1h")
    assert (ttl.update, ttl.visibility, ttl.time, ttl.cleanup.full_snapshot) == (
        hg.TtlUpdate.ON_CREATE_AND_WRITE,
        hg.TtlVisibility.NEVER_RETURN_EXPIRED,
        hg.TtlTime.PROCESSING,
        True,
    )


def test_text_and_constants_are_the_same() -> None:
    """Either spelling gives an equal declaration, and it travels."""
    text = hg.StateTtl(
        "1h", update="on-read-and-write", visibility="return-expired-if-not-cleaned-up", time="event"
    )
    named = hg.StateTtl(
        hg.HOURS,
        update=hg.TtlUpdate.ON_READ_AND_WRITE,
        visibility=hg.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
        time=hg.TtlTime.EVENT,
    )
    assert text == named == pickle.loads(pickle.dumps(named))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hg.StateTtl("a week"), "duration is 'a week'"),
        (lambda: hg.StateTtl(-1), "duration is -1"),
        (lambda: hg.StateTtl(0), "got duration=0; expected 1 ms or more"),
        (lambda: hg.StateTtl(None), "got None for 'duration'"),  # type: ignore[arg-type]
        (
            lambda: hg.StateTtl(1, update="always"),
            "got update='always'; expected one of 'on-create-and-write'",
        ),
        (lambda: hg.StateTtl(1, visibility="no"), "got visibility='no'"),
        (lambda: hg.StateTtl(1, time="watermark"), "expected one of 'processing', 'event'"),
        (lambda: hg.StateTtl(1, cleanup=5), "got cleanup=5; expected hg.TtlCleanup"),  # type: ignore[arg-type]
        (lambda: hg.TtlCleanup(incremental=-1), "got incremental=-1"),
        (lambda: hg.value_state(ttl="7d"), "got ttl='7d'; expected a StateTtl"),
        (lambda: hg.map_state(ttl=5), "got ttl=5; expected a StateTtl"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(make: Any, said: str) -> None:
    """The sentence names file and line, what was got and what was expected."""
    with pytest.raises(hg.PlanError) as caught:
        make()
    assert said in str(caught.value)
    assert "test_api_state_ttl.py:" in str(caught.value)


def test_every_kind_of_state_can_have_one() -> None:
    """The declaration reaches the descriptor."""
    ttl = hg.StateTtl("1h")

    class Kinds(hg.KeyedProcessFunction[Any, Any, Any]):
        value: hg.ValueState[int] = hg.value_state(default=0, ttl=ttl)
        many: hg.ListState[int] = hg.list_state(ttl=ttl)
        named: hg.MapState[str, int] = hg.map_state(ttl=ttl)
        least: hg.ReducingState[int] = hg.reducing_state(min, ttl=ttl)

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert [found.ttl for found in declared_state(Kinds()).values()] == [ttl] * 4
