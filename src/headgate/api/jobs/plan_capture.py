"""Captures a program's plan without running it: a child process writes the plan at ``execute()`` and ends.
Headgate starts nothing in it: no executor, no Spark, no look at files. The result is what
``explain(format="json")`` gives, as dicts and lists, with the settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headgate.api.jobs.launch import run_alone
from headgate.api.jobs.launch_settings import (
    INSPECTION_VARIABLE,
    CaptureComplete,
    capture_file,
    launch_variables,
)
from headgate.common import errors
from headgate.common.errors import HeadgateError, PlanError, UsageError
from headgate.common.refusals.users_frames import users_traceback

_CHILD = "from headgate.api.jobs.plan_capture import child_main; child_main()"
_OUTPUT_SHOWN = 2_000
_DEBUG: Final = "HEADGATE_DEBUG"


@dataclass(frozen=True, slots=True)
class Inspection:
    """A call of function `inspector` ("module:function") in the child process, on `request`, nodes, plan and
    settings. It returns plain values, and must raise nothing: what the program catches would be lost. A
    request with a true `debug` gives the child this terminal.
    """

    inspector: str
    request: Mapping[str, Any]


def capture(
    path: str | Path,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    timeout_s: float | None = 60.0,
    inspection: Inspection | None = None,
) -> dict[str, Any]:
    """Run a program file (a script or ``def build(env)``) in a child process up to its job; return the plan.

    The program gets `arguments` (``sys.argv[1:]``) and `options` (``key=value`` settings). `timeout_s` (None:
    no limit) includes the inspection. Raises the UsageError that the program itself raised, and PlanError
    where it failed otherwise, ended without a job, or took too long.

    Returns:
        ``format``, ``job``, ``logical``, ``vertices``, ``edges``, ``slots``, ``max_parallelism`` and
        ``config``, as plain values; ``inspection`` where one is requested.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-capture-") as folder:
        file = Path(folder) / "plan.json"
        variables = launch_variables(options, capture=file)
        if inspection is not None:
            variables[INSPECTION_VARIABLE] = json.dumps([inspection.inspector, inspection.request])
        here = inspection is not None and bool(inspection.request.get("debug"))
        output = _run_child(Path(path), arguments, variables, timeout_s, here)
        if not file.exists():
            raise PlanError(
                f"program {str(path)!r} ended before execute(); it said: {output[-_OUTPUT_SHOWN:]!r}"
            )
        captured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if "error" in captured:
        raise _raised(str(path), captured["error"])
    return captured


def child_main() -> None:
    """Run ``sys.argv[1:]`` (file, arguments) in this child; write its plan or error to the capture file."""
    file = capture_file()
    assert file is not None, "the child is started with the capture variable set"
    try:
        run_alone(sys.argv[1], sys.argv[2:])
    except CaptureComplete:
        return
    except BaseException as error:  # the program may raise anything, SystemExit included
        if file.exists() and not isinstance(error, HeadgateError):
            return  # it looked at a stream, which has no records here
        facts = {
            "type": type(error).__name__,
            "message": str(error),
            "headgate": isinstance(error, HeadgateError),
            "traceback": traceback.format_exc() if os.environ.get(_DEBUG) == "1" else users_traceback(error),
        }
        file.write_text(json.dumps({"error": facts}), encoding="utf-8")


def _run_child(
    path: Path, arguments: Sequence[str], variables: Mapping[str, str], timeout_s: float | None, here: bool
) -> str:
    ours = str(Path(__file__).resolve().parents[3])
    search = os.pathsep.join(part for part in (ours, os.environ.get("PYTHONPATH", "")) if part)
    try:
        ended = subprocess.run(  # noqa: S603 - the user's own program, run at the user's request
            [sys.executable, "-c", _CHILD, str(path), *arguments],
            env={**os.environ, **variables, "PYTHONPATH": search},
            stdin=None if here else subprocess.DEVNULL,
            stdout=None if here else subprocess.PIPE,
            stderr=None if here else subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlanError(
            f"program {str(path)!r} did not reach execute() within {timeout_s:g} s; what stands before "
            "execute() should only build the dataflow"
        ) from None
    return (ended.stdout or b"").decode("utf-8", errors="replace")


def _raised(path: str, facts: Mapping[str, Any]) -> UsageError:
    kind = getattr(errors, facts["type"], None) if facts["headgate"] else None
    if isinstance(kind, type) and issubclass(kind, UsageError) and kind is not errors.UserFunctionError:
        return kind(facts["message"])
    return PlanError(
        f"program {path!r} raised {facts['type']} before execute(): {facts['message']}\n{facts['traceback']}"
    )
