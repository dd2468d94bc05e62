"""Encodes errors of Headgate as plain data for another process, and rebuilds them there."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.common import errors
from headgate.common.plain_data import Plain
from headgate.common.refusals.texts import shortened


def rebuild_error(kind: str, arguments: Sequence[Plain]) -> errors.HeadgateError:
    """Return the error that :func:`describe_error` encoded; an InternalError for an unknown class name."""
    cls = getattr(errors, kind, errors.InternalError)
    error: errors.HeadgateError = cls(*arguments)
    return error


def describe_error(error: BaseException) -> tuple[str, list[Plain]]:
    """Return an error as (name of its nearest class in `common.errors`, arguments); others: InternalError."""
    if isinstance(error, errors.UserFunctionError):
        return "UserFunctionError", list(error.args)
    for cls in type(error).__mro__:
        if getattr(errors, cls.__name__, None) is cls:
            return cls.__name__, [str(error)]
    import traceback

    text = "".join(traceback.format_exception(error))
    return "InternalError", [shortened(f"{type(error).__name__}: {error}\n{text}")]
