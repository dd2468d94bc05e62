"""Finds or opens the Spark of a job: the program's, an active one, or one that is opened and ended here.

Spark opened here is kept for the next job of the process, because opening takes seconds, and ended with the
process: no JVM and no Python worker outlives the program. A gang needs the SparkContext only; the SQL session
on top of it takes another two seconds and is made when a DataFrame is used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.api.jobs.launch_settings import variables_set
from headgate.common.errors import OperatingError, UsageError
from headgate.common.process.children import at_exit
from headgate.common.process.signal_handlers import deferring_interrupts
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import JVM_RESOLVE_ORDER, ResolveOrder
from headgate.deploy.spark.java import check_java
from headgate.deploy.spark.reasons import shortened
from headgate.deploy.spark.settings import (
    CHILD_FIRST,
    is_local,
    launch_environment,
    logging_properties,
    master_for,
    session_settings,
    settings_after_submit,
    submit_settings,
)
from headgate.deploy.spark.slots import held

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

_JVM_ENDS_S: Final = 10.0

NOISE: Final = "WARNING: Using incubator modules: jdk.incubator.vector"
"""The one line that Spark's JVM prints at every start; :func:`forwarded_output` leaves it out."""


@dataclass(slots=True)
class _Own:
    """A Spark opened here; `lent`: the program uses a DataFrame of it, so it stays until the process ends."""

    context: SparkContext
    lent: bool = False


_own: _Own | None = None
_opening: Final = threading.Lock()  # held while Spark is opened: jobs may begin at the same time


def acquire(given: SparkSession | None, name: str, config: Config, slots: int) -> SparkContext:
    """Return the Spark context for a job: `given`'s, else the active one, else a new one of `slots` slots.

    Headgate's own, opened for an earlier job, is replaced if it is idle and has too few slots. `name` is a
    new application's. Opening takes seconds; other callers wait meanwhile.

    Raises:
        UsageError: Spark cannot run gangs, is not what the job's `config` asks for, or there is no Java.
        OperatingError: Spark did not start.
    """
    with _opening:
        found = _acquired(given, name, config, slots)
    check_jvm_order(found, config)
    return found


def _acquired(given: SparkSession | None, name: str, config: Config, slots: int) -> SparkContext:
    global _own
    refuse_connect(given)
    context: SparkContext | None = _active() if given is None else given.sparkContext
    if context is not None and _own is not None and context is _own.context:
        if not _outgrown(_own, slots):
            return context
        context.stop()
        context = None
    if context is not None:
        check_suitable(context)
        return context
    opened = _open(name, config, slots)
    if _own is None:
        at_exit(_end)
    _own = _Own(opened)
    return opened


def session(slots: int = 3, name: str = "headgate") -> SparkSession:
    """Return the process's Spark session, or open one as a job does, to read from Spark before the job.

    One that is opened here starts fast, logs little, and is there until the process ends; a small one that
    an earlier job opened may be replaced.

    Args:
        slots: task slots of a local Spark: one for each unit of the job's parallelism, and one for Spark's
            own tasks. A master that spark-submit names decides by itself.
        name: of the application.

    Raises:
        UsageError: no Java, a kind of session that cannot run jobs, or settings that exclude them.
        OperatingError: Spark did not start.
    """
    acquire(None, name, Config(), slots)
    lend()
    return sql_session(None)


def sql_session(given: SparkSession | None) -> SparkSession:
    """Return the given session, else the running Spark context's; PySpark starts Spark if none runs."""
    from pyspark.sql import SparkSession

    found: SparkSession = SparkSession.builder.getOrCreate() if given is None else given
    return found


def master_of(context: SparkContext) -> str:
    """Return the URL of a Spark context's master, such as ``local[4]``; empty if it has none."""
    return context.master or ""


def lend() -> None:
    """Keep a Spark that was opened here until the process ends, as the program has a DataFrame of it."""
    if _own is not None:
        _own.lent = True


def refuse_connect(given: SparkSession | None) -> None:
    if given is not None and type(given).__module__.startswith("pyspark.sql.connect"):
        what = "the session given to the Environment is one of Spark Connect"
    elif given is None and (variable := next((v for v in _CONNECT if os.environ.get(v)), None)):
        what = f"the variable {variable} asks for Spark Connect"
    else:
        return
    raise UsageError(
        f"{what}, whose driver is another process that the job master cannot live in; use a classic "
        "session: SparkSession.builder.master(...)"
    )


_CONNECT: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def check_suitable(context: SparkContext) -> None:
    from py4j.clientserver import ClientServer

    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UsageError(
            "the Spark session has spark.dynamicAllocation.enabled=true, and Spark refuses barrier stages "
            "then; open it with false and a fixed number of executors"
        )
    if not isinstance(context._gateway, ClientServer):
        raise UsageError(
            "the Spark session was opened with PYSPARK_PIN_THREAD=false, so that jobs of one thread "
            "cannot be cancelled; open it without that variable"
        )
    if is_local(master_of(context)):
        check_interpreter(context.pythonExec)


def check_jvm_order(context: SparkContext, config: Config) -> None:
    if config.get(JVM_RESOLVE_ORDER) is not ResolveOrder.CHILD_FIRST:
        return
    lacking = [key for key in CHILD_FIRST if context.getConf().get(key, "false") != "true"]
    if lacking:
        raise UsageError(
            f"{JVM_RESOLVE_ORDER.key} is child-first, and Spark was started without {' and '.join(lacking)}; "
            "start it with them, as by spark-submit --conf, or let Headgate open it"
        )


def check_interpreter(workers: str) -> None:
    found = shutil.which(workers)
    if found is not None and Path(found).absolute() == Path(sys.executable).absolute():
        return
    asked = [found or workers, "-c", "import sys; print(sys.prefix, *sys.version_info[:2])"]
    with contextlib.suppress(OSError):
        answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=20)  # noqa: S603
        if answer.stdout.strip() == f"{sys.prefix} {sys.version_info[0]} {sys.version_info[1]}":
            return
    raise UsageError(
        f"the Spark session starts its workers with {workers!r}, and this program runs with "
        f"{sys.executable!r}; set PYSPARK_PYTHON to the latter before the session is opened, or let Headgate "
        "open it"
    )


def _active() -> SparkContext | None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None or context._jsc is None else context


def _outgrown(own: _Own, slots: int) -> bool:
    small = is_local(master_of(own.context)) and own.context.defaultParallelism < slots
    return small and not own.lent and not held(own.context.applicationId)


def _open(name: str, config: Config, slots: int) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _open_submitted()
    submitted = submit_settings(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    master = master_for(submitted.get("spark.master") or config.get(o.SPARK_MASTER), slots)
    if submitted.get("spark.master"):
        submitted["spark.master"] = master
    check_java()
    with tempfile.TemporaryDirectory(prefix="headgate-") as folder, deferring_interrupts():
        log_file = Path(folder) / "log4j2.properties"
        log_file.write_text(logging_properties(), encoding="utf-8")
        settings = session_settings(name, master, submitted, str(log_file))
        if config.get(JVM_RESOLVE_ORDER) is ResolveOrder.CHILD_FIRST:
            settings = dict.fromkeys(CHILD_FIRST, "true") | settings
        with variables_set(launch_environment(os.environ, is_local(master))), _explained(master):
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            if SparkContext._gateway is None:
                _start_jvm(conf)
            return SparkContext(conf=conf)


def _open_submitted() -> SparkContext:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf = SparkConf()  # with what was submitted
    conf.setAll(list(settings_after_submit(conf.contains).items()))
    with deferring_interrupts(), _explained(conf.get("spark.master") or ""):
        context = SparkContext(conf=conf)
    check_suitable(context)
    return context


@contextmanager
def _explained(master: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise OperatingError(
            f"Spark did not start with master {master!r}: {shortened(str(error))}; "
            "see Spark's own lines above"
        ) from error


def _start_jvm(conf: SparkConf) -> None:
    # As PySpark does, but with its output forwarded to `sys.stderr`.
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    with forwarded_output() as output:
        gateway = launch_gateway(conf, {"stderr": output})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def forwarded_output() -> Iterator[int]:
    """Yield a file descriptor for the output of Spark's JVM and Python workers, open until the block ends.

    Each line but `NOISE` goes to `sys.stderr`, so that a progress display can keep its line below it.
    """
    reading, writing = os.pipe()
    thread = threading.Thread(target=_forward, args=(reading,), name="headgate-jvm-output", daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.close(writing)


def _forward(reading: int) -> None:
    with open(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.rstrip("\n") == NOISE:
                continue
            # The terminal, or the interpreter itself, may be on its way out.
            with contextlib.suppress(Exception):
                sys.stderr.write(line)
                sys.stderr.flush()


def _end() -> None:
    # At exit. A JVM that this process has started must not outlive it.
    from pyspark import SparkContext

    own, gateway = _own, SparkContext._gateway
    if own is not None:
        with contextlib.suppress(Exception):
            own.context.stop()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()  # the JVM lives as long as this pipe
    try:
        process.wait(_JVM_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
