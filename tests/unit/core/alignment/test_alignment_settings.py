"""Which barrier a checkpoint gets: one row per rule."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder
from headgate.core.alignment.settings import AlignmentSettings

AT_LEAST_ONCE = AlignmentSettings(exactly_once=False)
TIMED_AT_LEAST_ONCE = AlignmentSettings(exactly_once=False, timeout_ms=5)
ALIGNED = AlignmentSettings()
TIMED_BUT_OFF = AlignmentSettings(timeout_ms=5)
UNALIGNED = AlignmentSettings(unaligned=True)
TIMED = AlignmentSettings(unaligned=True, timeout_ms=5)
ORDER = SavepointOrder("file:///savepoints/savepoint-0a1b2c")


@pytest.mark.parametrize(
    ("settings", "savepoint", "alignment", "timeout_ms"),
    [
        (AT_LEAST_ONCE, False, Alignment.AT_LEAST_ONCE, None),
        (AT_LEAST_ONCE, True, Alignment.AT_LEAST_ONCE, None),
        (TIMED_AT_LEAST_ONCE, False, Alignment.AT_LEAST_ONCE, None),
        (ALIGNED, False, Alignment.ALIGNED, None),
        (ALIGNED, True, Alignment.ALIGNED, None),
        (TIMED_BUT_OFF, False, Alignment.ALIGNED, None),
        (UNALIGNED, False, Alignment.UNALIGNED, None),
        (UNALIGNED, True, Alignment.ALIGNED, None),
        (TIMED, False, Alignment.ALIGNED, 5),
        (TIMED, True, Alignment.ALIGNED, None),
    ],
)
def test_the_barrier_is_chosen_at_the_trigger(
    settings: AlignmentSettings, savepoint: bool, alignment: Alignment, timeout_ms: int | None
) -> None:
    """Mode, savepoint, unaligned and timeout decide in this order."""
    order = ORDER if savepoint else None
    assert settings.barrier(7, 1000, order) == Barrier(7, 1000, alignment, timeout_ms, order)


def test_sk3_only_unaligned_barriers_overtake_from_the_start() -> None:
    """sK3: a savepoint's barrier and one that begins aligned keep their place behind the records."""
    assert UNALIGNED.barrier(1, 0).overtakes
    assert not UNALIGNED.barrier(1, 0, savepoint=ORDER).overtakes
    assert not TIMED.barrier(1, 0).overtakes


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"exactly_once": False, "unaligned": True}, "at-least-once, which never waits"),
        ({"timeout_ms": -1}, "-1 ms; expected at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, int], said: str) -> None:
    """The machine does not rely on the configuration having been checked."""
    with pytest.raises(ConfigError, match=said):
        AlignmentSettings(**fields)  # type: ignore[arg-type]
