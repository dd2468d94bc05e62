"""Memory that runs out while user code is loaded."""

from __future__ import annotations

import errno

import pytest

from headgate.usercode.exhaustion import EXIT_CODE, LoaderBounds, is_exhaustion, on_load_failure
from headgate.usercode.loading_errors import UserCodeLoadError


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """`error` because of `cause`."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        caused(RuntimeError("import failed"), ImportError("x: cannot allocate memory in static TLS block")),
        caused(ImportError("a"), caused(ValueError("b"), MemoryError())),
    ],
)
def test_exhaustion_is_recognised_in_every_form(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the cause of something else, too; the process ends with a code of its own, or the task fails."""
    assert is_exhaustion(error)
    left: list[int] = []
    on_load_failure(error, "job a", True, left.append)
    assert left == [EXIT_CODE] == [239]
    assert "'job a'" in capsys.readouterr().err
    assert isinstance(on_load_failure(error, "job a", False, left.append), UserCodeLoadError)
    assert left == [EXIT_CODE]


@pytest.mark.parametrize(
    "error",
    [ImportError("no module named x"), ValueError("cannot allocate memory"), OSError(errno.ENOENT, "")],
)
def test_other_errors_are_none(error: BaseException) -> None:
    """They are the task's own."""
    assert not is_exhaustion(error)
    assert on_load_failure(error, "job a", True, lambda code: pytest.fail("left")) is None


def test_bounds() -> None:
    """Of loaders and of bytes, each with its option's name."""
    bounds = LoaderBounds(3, 100)
    assert bounds.exceeded(3, 100) is None
    assert "max-leaked-loaders" in str(bounds.exceeded(4, 0))
    assert "max-leaked-memory" in str(bounds.exceeded(0, 101))
