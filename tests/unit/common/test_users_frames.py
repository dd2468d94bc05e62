"""Tracebacks as the author of a program wants to see them."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.common.refusals.users_frames import users_traceback


def shown(error: BaseException) -> list[str]:
    """The files whose frames are told."""
    lines = users_traceback(error).splitlines()
    return [Path(line.split('"')[1]).name for line in lines if line.startswith("  File ")]


def test_frames_of_headgate_are_left_out() -> None:
    """What the program called, and not what Headgate did then."""
    with pytest.raises(hg.ConfigError) as caught:
        hg.Environment(parallelism=0)
    assert shown(caught.value) == [Path(__file__).name]


def test_frames_of_imports_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module that fails while it is imported its own frame stays; so it is with a cause."""
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="no module") as caught:
        try:
            __import__("broken_module")
        except ZeroDivisionError as error:
            raise ValueError("no module") from error
    assert shown(caught.value) == [Path(__file__).name, "broken_module.py", Path(__file__).name]
    assert "importlib" not in users_traceback(caught.value)
    assert "ZeroDivisionError" in users_traceback(caught.value)
