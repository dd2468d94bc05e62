"""What is told of Spark's errors: why, and enough of the rest, without the frames of Java."""

from __future__ import annotations

from headgate.stateprocessor.spark_errors import HEAD, TAIL, readable

PYTHON = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/job/users.py", line 7, in rate
    return 1 / row.times
ZeroDivisionError: division by zero
"""

JAVA = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task
java.lang.RuntimeException: writing rows failed
\tat org.apache.spark.sql.execution.Writer.write(Writer.scala:17)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 17 more

Driver stacktrace:
"""


def test_of_a_traceback_the_exception_and_the_users_line() -> None:
    """The first line of Spark's says only where to look."""
    first, *rest = readable(RuntimeError(PYTHON)).splitlines()
    assert first == "ZeroDivisionError: division by zero"
    assert any('"/job/users.py", line 7, in rate' in line for line in rest)


def test_of_javas_errors_the_innermost_and_no_frames() -> None:
    """All the messages on the way to it are shown."""
    first, *rest = readable(RuntimeError(JAVA)).splitlines()
    assert first == "java.io.IOException: No space left on device"
    assert any("writing rows failed" in line for line in rest)
    assert not any("Thread.java" in line or "17 more" in line or "Driver stack" in line for line in rest)


def test_a_long_text_is_cut_in_the_middle() -> None:
    """Its begin and its end are shown."""
    lines = readable(RuntimeError("\n".join(f"line {n}" for n in range(100)))).splitlines()
    assert len(lines) == 1 + HEAD + 1 + TAIL
    assert (lines[0], lines[1].strip(), lines[-1].strip()) == ("line 0", "line 0", "line 99")
    assert "70 more lines" in lines[1 + HEAD]


def test_an_error_without_words_is_named() -> None:
    """Its class says something."""
    assert readable(KeyError()) == "KeyError"
