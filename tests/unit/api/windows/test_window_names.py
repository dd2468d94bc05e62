"""The names of windows in `headgate`: all are there, and none hides a builtin."""

from __future__ import annotations

import builtins

import headgate as hg
from headgate.api.windows import public


def test_every_name_is_one_of_the_package() -> None:
    """Loaded at first use."""
    for name in public.__all__:
        assert getattr(hg, name) is getattr(public, name)


def test_importing_all_names_hides_no_builtin() -> None:
    """`min`, `max` and `sum` are taken by their module."""
    hidden = {name for name in public.__all__ if hasattr(builtins, name)}
    assert hidden == {"max", "min", "sum"}
    assert set(public.__all__) - set(hg.__all__) == hidden
    scope: dict[str, object] = {}
    exec("from headgate import *", scope)
    assert "sum" not in scope
    assert "tumbling" in scope
