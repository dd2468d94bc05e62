"""Settings and variables with which Headgate opens Spark, as plain data; nothing here loads Spark.

What the user has set for spark-submit wins over them, but for FAIR scheduling in a JVM of spark-submit.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Final

LOOPBACK: Final = "127.0.0.1"

JVM_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""The JVM schedules and waits: it should start fast rather than run fast, and leave no file behind."""

LOCAL: Final = "local"  # the master that means: as many slots on this machine as the job needs

_FIXED: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    # Failover is the job master's: Spark must not repeat a task.
    "spark.task.maxFailures": "1",
    # From the cancel of a task to the SIGKILL of its worker.
    "spark.python.task.killTimeout": "500ms",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.driver.memory": "1g",
    # Read by others, which do not all know the old 96-bit timestamps.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_CHECKS: Final = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures"
_CHECKS_LOCAL: Final = "1"
_CHECKS_CLUSTER: Final = "30"

LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.filter.errors.type = ThresholdFilter
appender.stderr.filter.errors.level = error
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""
"""Log4j's settings: errors only, one line each.

The level itself is WARN because Spark announces with two lines that it changes any other to WARN.
"""

_SILENT: Final = (
    # These log pages of stack when a worker died or was cancelled; the job master reports it in one line.
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.api.python.BasePythonRunner",
    "org.apache.spark.util.SparkUncaughtExceptionHandler",
    "org.apache.spark.sql.execution.python",
)


def is_local(master: str) -> bool:
    """Return whether a master URL means that driver and workers share one machine and one JVM.

    Example:
        >>> is_local("local[4]"), is_local("local"), is_local("local-cluster[2,1,1024]"), is_local("yarn")
        (True, True, False, False)
    """
    return re.match(r"local(\[|$)", master) is not None


def master_for(master: str, slots: int) -> str:
    """Return the master to open Spark with: plain ``local`` becomes ``local[slots]``.

    Example:
        >>> master_for("local", 3), master_for("local[8]", 3), master_for("spark://node:7077", 3)
        ('local[3]', 'local[8]', 'spark://node:7077')
    """
    return f"local[{slots}]" if master == LOCAL else master


def submit_settings(arguments: str) -> dict[str, str]:
    """Return the Spark settings in PYSPARK_SUBMIT_ARGS' text: --conf, --master, --name, two of --driver-*.

    Example:
        >>> submit_settings("--master yarn --conf spark.ui.enabled=true --driver-memory 4g pyspark-shell")
        {'spark.master': 'yarn', 'spark.ui.enabled': 'true', 'spark.driver.memory': '4g'}
    """
    keys = {
        "--master": "spark.master",
        "--driver-memory": "spark.driver.memory",
        "--driver-java-options": "spark.driver.extraJavaOptions",
        "--name": "spark.app.name",
    }
    found: dict[str, str] = {}
    words = iter(shlex.split(arguments))
    for word in words:
        flag, equals, value = word.partition("=")
        if flag in ("--conf", "-c"):
            key, _, text = (value if equals else next(words, "")).partition("=")
            found[key] = text
        elif flag in keys:
            found[keys[flag]] = value if equals else next(words, "")
    return found


CHILD_FIRST: Final = ("spark.driver.userClassPathFirst", "spark.executor.userClassPathFirst")
"""Spark's settings by which its JVMs search the user's jars before their own."""


def session_settings(name: str, master: str, submitted: Mapping[str, str], log_file: str) -> dict[str, str]:
    """Return the settings of a new Spark; those in `submitted` (spark-submit's) win. `log_file`: Log4j's."""
    local = is_local(submitted.get("spark.master", master))
    settings = {
        "spark.app.name": name,
        "spark.master": master,
        **_FIXED,
        _CHECKS: _CHECKS_LOCAL if local else _CHECKS_CLUSTER,
        "spark.driver.extraJavaOptions": f"{JVM_FLAGS} -Dlog4j2.configurationFile=file:{log_file}",
    }
    if local:
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        settings |= {"spark.ui.enabled": "false"}
    return settings | dict(submitted)


def settings_after_submit(has: Callable[[str], bool]) -> dict[str, str]:
    """Return settings to add in spark-submit's JVM: FAIR scheduling, and some that it lacks (not `has(key)`).

    Example:
        >>> sorted(settings_after_submit({"spark.python.task.killTimeout"}.__contains__))[0]
        'spark.scheduler.barrier.maxConcurrentTasksCheck.interval'
    """
    names = ("spark.python.task.killTimeout", "spark.scheduler.barrier.maxConcurrentTasksCheck.interval")
    offered = {name: _FIXED[name] for name in names} | {_CHECKS: _CHECKS_CLUSTER}
    mode = {"spark.scheduler.mode": _FIXED["spark.scheduler.mode"]}
    return mode | {name: value for name, value in offered.items() if not has(name)}


def launch_environment(environment: Mapping[str, str], local: bool) -> dict[str, str]:
    """Return the environment variables to set while Spark starts.

    On one machine (`local`) workers must run the driver's own interpreter. On a cluster that path need not
    exist, so what the user has set stands.
    """
    if local:
        return {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": LOOPBACK,
        }
    return {"PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON", sys.executable)}


def logging_properties() -> str:
    """Return the text of Log4j's properties file for Spark's JVM: errors only, in one line, no stacks."""
    silent = "".join(
        f"logger.silent{number}.name = {name}\nlogger.silent{number}.level = off\n"
        for number, name in enumerate(_SILENT)
    )
    return LOGGING + silent
