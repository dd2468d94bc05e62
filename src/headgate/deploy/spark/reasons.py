"""Finds in Spark's long error texts the reason why a gang of workers ended, as one sentence."""

from __future__ import annotations

import re
from typing import Final

from headgate.runtime.master.attempt.deaths import UNEXPLAINED_END

SENTENCE_MAX: Final = 400

_TASK: Final = re.compile(r"ResultTask\(\d+, (\d+)\)")
_EXECUTOR: Final = re.compile(r"ExecutorLostFailure \(executor (\S+)[^)]*\)(?:\s+Reason: ([^\n]+))?")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(.*?)(?:\n\n|\n\tat |\Z)", re.DOTALL)
_STOPPED: Final = re.compile(r"SparkContext (?:was|has been) (?:shut ?down|stopped)|stopped SparkContext")
_GONE: Final = ("Connection refused", "Answer from Java side is empty", "Error while sending or receiving")


def shortened(text: str) -> str:
    """Return the reason why a gang ended, as one sentence (at most 400 characters), from Spark's error text.

    Example:
        >>> shortened("... barrier task ResultTask(4, 1) finished unsuccessfully ... Python worker exited "
        ...           "unexpectedly (crashed)")
        'the Python worker of slot 1 died: killed by a signal, out of memory, or stopped by itself'
        >>> shortened("org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled")
        'it was cancelled'
    """
    if "SPARK_JOB_CANCELLED" in text or "cancelled part of cancelled job" in text:
        return "it was cancelled"
    if "SPARK-24819" in text or "BarrierJobSlotsNumberCheckFailed" in text:
        return "Spark has fewer task slots than the gang needs; were executors lost?"
    if _STOPPED.search(text):
        return "the Spark session was stopped"
    if (lost := _EXECUTOR.search(text)) is not None:
        return _cut(f"executor {lost[1]} was lost{': ' + lost[2].strip() if lost[2] else ''}")
    if (raised := _python_error(text)) is not None:
        return _cut(f"the Python worker{_slot(text)} raised {raised}")
    if "Python worker exited unexpectedly" in text or "Python worker failed to connect" in text:
        return f"the Python worker{_slot(text)} died{UNEXPLAINED_END}"
    if any(sign in text for sign in _GONE):
        return "Spark's JVM in the driver ended"
    return _cut(_first_line(text))


def _slot(text: str) -> str:
    task = _TASK.search(text)
    return "" if task is None else f" of slot {task[1]}"


def _python_error(text: str) -> str | None:
    found = _TRACEBACK.search(text)
    if found is None:
        return None
    lines = [line for line in found[1].splitlines() if line and not line[0].isspace()]
    return lines[-1].strip() if lines else None


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Py4J's own first line says only that a call failed; the exception's line follows.
    named = [line for line in lines if re.match(r":? ?[\w.$]+(Exception|Error)\b", line)]
    return (named or lines or ["Spark gave no reason"])[0].removeprefix(": ")


def _cut(text: str) -> str:
    return text if len(text) <= SENTENCE_MAX else text[: SENTENCE_MAX - 3] + "..."
