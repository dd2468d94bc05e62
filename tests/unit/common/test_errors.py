"""The tree of exceptions: families, and that each survives the way between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from headgate.common import errors
from headgate.common.errors import HeadgateError, InternalError, OperatingError, UsageError, UserFunctionError

CLASSES = sorted(
    (
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, HeadgateError)
    ),
    key=lambda cls: cls.__name__,
)
FAMILIES = (UsageError, OperatingError, InternalError)


def made(cls: type[HeadgateError]) -> HeadgateError:
    """An exception of the class with plausible arguments."""
    if cls is UserFunctionError:
        return UserFunctionError("map (uid 'm')", "{'a': 1}", "Traceback\nValueError: no\n", 3)
    return cls("what, where, got, expected, what to do")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_exceptions_survive_pickling(cls: type[HeadgateError]) -> None:
    """An exception that crosses a process border arrives whole."""
    error = made(cls)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args, str(copy), vars(copy)) == (cls, error.args, str(error), vars(error))


@pytest.mark.parametrize(
    "cls", [cls for cls in CLASSES if cls is not HeadgateError], ids=lambda cls: cls.__name__
)
def test_every_exception_has_one_family(cls: type[HeadgateError]) -> None:
    """Each exception says whose move it is: the user's, the operator's or ours."""
    assert sum(issubclass(cls, family) for family in FAMILIES) == 1


def test_the_drawn_tree_is_complete() -> None:
    """The tree in the module's docstring shows every class."""
    drawn = set(re.findall(r"\w+Error", errors.__doc__ or ""))
    assert drawn == {cls.__name__ for cls in CLASSES}


def test_an_error_of_user_code_shows_all_four_facts() -> None:
    """Operator with uid, record, attempt and the user's own traceback are in the text."""
    text = str(made(UserFunctionError))
    assert (
        text
        == "map (uid 'm') raised ValueError: no in attempt 3 for record {'a': 1}\nTraceback\nValueError: no"
    )
