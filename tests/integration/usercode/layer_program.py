"""Checks of a dependency layer: jobs that come and go over packages that stay. Prints a JSON object.

python layer_program.py SOURCES FOLDER ENVIRONMENTS
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

ENVIRONMENT = Path(sys.argv[3], "b")

from namespace_checks import FOUND, ROOT, check, tell

from headgate.usercode.loaders import Artifacts, UserCodeLoaders
from headgate.usercode.loading_errors import NativeModuleConflictError
from headgate.usercode.namespaces.leaks import LeakReport
from headgate.usercode.namespaces.loader import Namespace

PROGRAM = """
import importlib
import numpy, pandas, pyarrow, pydantic
class Big:
    data = bytearray(8 << 20)
def go():
    frame = pandas.DataFrame({"a": [1, 2]})
    return float(numpy.arange(4).sum()), pyarrow.Table.from_pandas(frame).num_rows, late()
def late():
    return importlib.import_module("requests").__version__
"""


def rounds(layer: Namespace) -> dict[str, Any]:
    """Five jobs one after the other, each with a module of its own over the layer."""
    reports: list[LeakReport] = []
    loaders = UserCodeLoaders(
        lambda job, made: Namespace(job, made.paths, made.settings, layer), reports.append
    )
    found: dict[str, Any] = {"said": [], "imports_ms": [], "numpy": set(), "resident": []}
    for number in range(5):
        lease = loaders.lease(f"job{number}", Artifacts("key", (str(ROOT),)))
        began = time.perf_counter()
        module = lease.namespace.import_module("program")
        found["imports_ms"].append(round((time.perf_counter() - began) * 1000, 1))
        found["said"].append(lease.namespace.call(module.go))
        found["numpy"].add(id(module.numpy))
        del module
        lease.release()
        found["resident"].append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
    found["left"] = [list(report.modules) for report in reports]
    return found


def second_namespace() -> bool:
    """Another namespace with the same files, without the layer."""
    try:
        Namespace("another job", [str(ENVIRONMENT)]).import_module("numpy")
    except ImportError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, NativeModuleConflictError):
            cause = cause.__cause__ or cause.__context__
        ways = ("native-modules=process", "dependency-layer", "parent-first-patterns.additional")
        return all(way in str(cause) for way in ways) or str(error)  # type: ignore[return-value]
    return False


def main() -> None:
    """Run all checks."""
    (ROOT / "program.py").write_text(PROGRAM)
    layer = Namespace("layer", [str(ENVIRONMENT)])
    found = rounds(layer)
    check("every job works", lambda: found["said"], [(6.0, 2, "2.32.3")] * 5)
    check("one numpy for all jobs", lambda: len(found["numpy"]), 1)
    check("jobs leave nothing", lambda: found["left"], [[]] * 5)
    check("numpy is the layer's", lambda: "numpy" in layer.modules and "numpy" not in sys.modules)
    check("a restart takes 50 ms at most", lambda: min(found["imports_ms"][1:]) <= 50)
    check("memory is flat", lambda: found["resident"][-1] - found["resident"][1] < 4 << 20)
    check("the same files a second time", second_namespace)
    tell({"checks": FOUND, "imports_ms": found["imports_ms"]})


if __name__ == "__main__":
    main()
