"""Checks of the end of namespaces, in their own interpreter: prints a JSON object, check -> what it found.

python closing_program.py SOURCES FOLDER
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from namespace_checks import FOUND, ROOT, check, tell

from headgate.usercode.code_release import register
from headgate.usercode.loaders import Artifacts, Lease, UserCodeLoaders
from headgate.usercode.loading_errors import ClosedUserCodeLoaderError, DifferentUserCodeError
from headgate.usercode.namespaces.leaks import LeakReport
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings

REGISTRY: list[Any] = []
"""What framework code keeps for its users."""

framework = ModuleType("framework_module")
framework.__dict__.update(REG=REGISTRY)
sys.modules["framework_module"] = framework


def opened(job: str, artifacts: Artifacts) -> Namespace:
    """A job's namespace, without a layer."""
    return Namespace(job, artifacts.paths, artifacts.settings)


class Job:
    """One job with one module.

    Args:
        name: of the job, and of its module.
        text: of the module.
        check_leaked: as the option.
    """

    def __init__(self, name: str, text: str, check_leaked: bool = True) -> None:
        self.name = name.replace(" ", "_")
        folder = ROOT / self.name
        folder.mkdir()
        (folder / f"{self.name}.py").write_text(text)
        (folder / "late.py").write_text("VERSION = 1\n")
        self.reports: list[LeakReport] = []
        self.loaders = UserCodeLoaders(opened, self.reports.append, 0.5)
        artifacts = Artifacts("key", (str(folder),), NamespaceSettings(check_leaked=check_leaked))
        self.lease: Lease = self.loaders.lease(self.name, artifacts)
        self.module: Any = self.lease.namespace.import_module(self.name)

    def end(self) -> LeakReport:
        """Release the only lease; the module is not held here any more."""
        self.module = None
        self.lease.release()
        return self.reports[-1]


def released(name: str, text: str, use: Callable[[Job], Any] = lambda job: None) -> None:
    """A shape that must leave nothing."""

    def leaves_nothing() -> Any:
        job = Job(name, text)
        use(job)
        report = job.end()
        return report.leaked or list(report.modules)

    check(name, leaves_nothing, [])


def held(name: str, text: str, holder: str, use: Callable[[Job], Any], undo: Callable[[], Any]) -> None:
    """A shape that must be reported with its holder's name."""

    def names_the_holder() -> Any:
        job = Job(name, text)
        use(job)
        report = job.end()
        undo()
        return report.leaked and (holder in str(report) or str(report))

    check(name, names_the_holder)


CALLBACK = "def callback(*args): return 1\n"


def shapes_that_are_released() -> None:
    """What typical packages do."""
    released("clean", "import json\nclass A: pass\n")
    released(
        "dataclass", "import abc, enum\nfrom dataclasses import dataclass\n@dataclass\nclass D:\n    x: int\n"
    )
    released("overloads", "import typing\n@typing.overload\ndef f(x: int) -> int: ...\ndef f(x): return x\n")
    released("typing caches", "import typing\nclass A: pass\nX = typing.Optional[A], typing.List[A]\n")
    released("finalizer", "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, lambda: None)\n")
    released("copyreg", "import copyreg\nclass A: pass\ncopyreg.pickle(A, lambda a: (A, ()))\n")
    released(
        "logging",
        "import logging\nclass H(logging.Handler):\n    def emit(self, record): pass\n"
        "logging.getLogger('x').addHandler(H())\nlogging.getLogger().addFilter(lambda record: True)\n",
    )
    released("patched standard module", "import json\ndef dumps(x): return 'mine'\njson.dumps = dumps\n")
    check("patch is taken back", lambda: json.dumps({}), "{}")
    released("excepthook", "import sys\ndef hook(*args): pass\nsys.excepthook = hook\n")
    released(
        "path and hooks", "import sys\nsys.path.append('/x')\nclass F: pass\nsys.meta_path.append(F())\n"
    )
    released(
        "context variable", "import contextvars\nclass A: pass\nV = contextvars.ContextVar('v')\nV.set(A())\n"
    )
    released("generator", "def g():\n    yield 1\nG = g()\nnext(G)\n")
    released("executor", "from concurrent.futures import ThreadPoolExecutor\nE = ThreadPoolExecutor(1)\n"
             "E.submit(int).result()\n")  # fmt: skip


def ends_in_order() -> None:
    """Hooks, atexit, leases."""
    check("atexit runs", _atexit, ["second", "first"])
    check("release hooks run once", _hooks, ["hook"])
    check("leases are counted", _leases, (True, ("job",), ()))
    check("other artifacts are refused", _other_artifacts, True)


def _atexit() -> list[str]:
    seen: list[str] = []
    job = Job("with atexit", "import atexit\ndef at(f):\n    atexit.register(f)\n")
    job.module.at(lambda: seen.append("first"))
    job.module.at(lambda: seen.append("second"))
    job.end()
    return seen


def _hooks() -> list[str]:
    seen: list[str] = []
    job = Job("with hooks", "")
    call = job.lease.namespace.call
    call(register, "h", lambda: seen.append("hook"))
    call(register, "h", lambda: seen.append("again"))
    call(register, "fails", lambda: 1 / 0)
    job.end()
    return seen


def _leases() -> Any:
    loaders = UserCodeLoaders(opened, lambda report: None)
    artifacts = Artifacts("key", (str(ROOT),))
    one, two = loaders.lease("job", artifacts), loaders.lease("job", artifacts)
    same = one.namespace is two.namespace
    one.release()
    one.release()
    after = loaders.jobs
    two.release()
    return same, after, loaders.jobs


def _other_artifacts() -> bool:
    loaders = UserCodeLoaders(opened, lambda report: None)
    lease = loaders.lease("job", Artifacts("key", (str(ROOT),)))
    try:
        loaders.lease("job", Artifacts("other", (str(ROOT),)))
    except DifferentUserCodeError as error:
        return "other" in str(error) and "key" in str(error)
    finally:
        lease.release()
    return False


def behind_the_end() -> None:
    """Code that is still there."""
    check("a thread that imports is refused and named", _thread_refused)
    check("without the check it loads on", _loads_on, 1)
    check("a call through it is refused", _call_refused)


LINGERS = """
import threading
go, done = threading.Event(), threading.Event()
seen = []
def run():
    go.wait()
    try:
        try:
            import late
            seen.append(late.VERSION)
        except ImportError:
            seen.append("swallowed")
    except RuntimeError as error:
        seen.append(str(error))
    done.set()
thread = threading.Thread(target=run, name="user-poller", daemon=True)
thread.start()
"""


def _lingering(name: str, check_leaked: bool) -> tuple[Any, LeakReport]:
    job = Job(name, LINGERS, check_leaked)
    go, done, seen = job.module.go, job.module.done, job.module.seen
    report = job.end()
    go.set()
    done.wait(10)
    return seen[0], report


def _thread_refused() -> Any:
    said, report = _lingering("lingers", True)
    named = any(one.name == "user-poller" and "lingers.py:" in one.place for one in report.threads)
    told = all(
        part in said
        for part in ("'lingers'", "'late'", "user-poller", "lingers.py:", "check-leaked-classloader")
    )
    return (named and told) or (said, str(report))


def _loads_on() -> Any:
    return _lingering("loads_on", False)[0]


def _call_refused() -> bool:
    job = Job("called", CALLBACK)
    namespace = job.lease.namespace
    job.end()
    try:
        namespace.call(len, ())
    except ClosedUserCodeLoaderError:
        return True
    return False


def shapes_that_hold() -> None:
    """What keeps a namespace, and under which name it is reported."""
    held("registry", CALLBACK, "REG", lambda job: REGISTRY.append(job.module.callback), REGISTRY.clear)
    held(
        "signal handler",
        CALLBACK,
        f"handler of signal {int(signal.SIGUSR1)}",
        lambda job: signal.signal(signal.SIGUSR1, job.module.callback),
        lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
    )
    held("kept exception", "def f(): raise ValueError\n", "REG", _keep_exception, REGISTRY.clear)
    timers: list[Any] = []
    text = f"import threading\n{CALLBACK}T = threading.Timer(30, callback)\nT.daemon = True\nT.start()\n"
    held("timer", text, "Timer", lambda job: timers.append(job.module.T.cancel), lambda: timers.pop()())


def _keep_exception(job: Job) -> None:
    try:
        job.module.f()
    except ValueError as error:
        REGISTRY.append(error)


def many_cycles() -> None:
    """Opened and closed again and again."""
    check("a hundred cycles", _cycles, (0, True))


def _cycles() -> Any:
    leaked, before = 0, 0
    for number in range(100):
        text = (
            "import json, logging, typing\nclass A: pass\nX = typing.Optional[A]\nbig = bytearray(1 << 20)\n"
        )
        leaked += Job(f"cycle{number}", text).end().leaked
        if number == 10:
            gc.collect()
            before = _resident()
    gc.collect()
    return leaked, _resident() - before < 5 << 20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run all checks."""
    importlib.invalidate_caches()
    shapes_that_are_released()
    ends_in_order()
    behind_the_end()
    shapes_that_hold()
    many_cycles()
    tell(FOUND)


if __name__ == "__main__":
    main()
