"""What happens to input that does not decode: fail, skip and count, or the side output."""

from __future__ import annotations

from typing import Final, Literal, get_args

from headgate.api.source import BadRecord
from headgate.common.errors import BadRecordError, UsageError

OnError = Literal["fail", "skip", "side-output"]

_SHOWN_MAX: Final = 120


def check_on_error(on_error: str) -> None:
    """Refuse anything but the three policies.

    Raises:
        UsageError: it is something else.
    """
    if on_error not in get_args(OnError):
        raise UsageError(f'on_error is {on_error!r}; expected "fail", "skip" or "side-output"')


def bad_record_error(bad: BadRecord) -> BadRecordError:
    """The error that names file, line, reason and the first characters."""
    shown = bad.raw[:_SHOWN_MAX].decode("utf-8", "backslashreplace")
    more = "..." if len(bad.raw) > _SHOWN_MAX else ""
    return BadRecordError(
        f"{bad.source}, line {bad.position}: {bad.reason}: {shown!r}{more}; correct the line, or read with "
        'on_error="skip" or on_error="side-output"'
    )
