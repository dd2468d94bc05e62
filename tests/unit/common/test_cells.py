"""Places in the cells of a notebook have the names that the notebook shows."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from headgate.common.errors import InternalError, PlanError, UserFunctionError
from headgate.common.refusals.cells import cell_name, short_place, with_cell_names

FILE = "/tmp/ipykernel_4711/1052424958.py"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shell that has run one cell, as IPython's says it; the integration tests have the real one."""
    numbers = {FILE: ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=numbers.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[misc]
    linecache.cache[FILE] = (1, None, ["first\n", "    len(record.z)\n"], FILE)
    yield
    del linecache.cache[FILE]


@pytest.mark.usefixtures("notebook")
def test_a_cell_is_named_by_its_number() -> None:
    """Everything else keeps its name."""
    assert (cell_name(FILE), cell_name("/home/ada/job.py")) == ("In[3]", None)
    assert short_place(FILE, 2) == "In[3]:2"
    assert short_place("/home/ada/job.py", 12) == "job.py:12"
    other = "/tmp/ipykernel_4711/99.py"
    assert with_cell_names(f"at {FILE}:2, and at {other}:1") == f"at In[3]:2, and at {other}:1"


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("code", ["", "\n    len(record.z)"])
def test_a_traceback_from_a_worker_shows_the_code_of_the_cell(code: str) -> None:
    """The worker did not have it; where it had, it is not shown twice."""
    trace = (
        f'Traceback (most recent call last):\n  File "{FILE}", line 2, in <lambda>{code}\nValueError: no z'
    )
    error = UserFunctionError("operator 'map' (uid 'm')", "7", trace)
    assert str(error).splitlines()[1:] == [
        "Traceback (most recent call last):",
        "  Cell In[3], line 2, in <lambda>",
        "    len(record.z)",
        "ValueError: no z",
    ]


def test_without_a_notebook_texts_stay_as_they_are() -> None:
    """Also names that look like a cell's."""
    assert with_cell_names(f'File "{FILE}", line 1') == f'File "{FILE}", line 1'


def test_a_notebook_shows_the_programs_lines_and_the_sentence() -> None:
    """A fault of Headgate is shown with all frames, for the report."""
    for kind, frames in ((PlanError, 0), (InternalError, 1)):
        try:
            raise kind("no sink")
        except (PlanError, InternalError) as error:
            lines = error._render_traceback_()
        assert lines[-1].endswith(f"{kind.__name__}: no sink")
        assert len([line for line in lines if "Traceback" in line]) == frames
        assert any("test_cells.py" in line for line in lines)


def test_the_cause_is_shown_where_it_has_lines_of_the_program() -> None:
    """Such as a sink of the program's that refuses in a helper."""
    try:
        try:
            raise ValueError("deep")
        except ValueError as error:
            raise PlanError("high") from error
    except PlanError as error:
        lines = error._render_traceback_()
    assert [line for line in lines if line.startswith(("ValueError", "PlanError"))] == [
        "ValueError: deep",
        "PlanError: high",
    ]
