"""How Spark is set up, which Java it accepts, and how its pages become one sentence; no JVM runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.common.errors import UsageError
from headgate.deploy.spark.java import check_java, major_version
from headgate.deploy.spark.reasons import SENTENCE_MAX, shortened
from headgate.deploy.spark.settings import (
    LOOPBACK,
    is_local,
    launch_environment,
    logging_properties,
    session_settings,
    submit_settings,
)


def fake_java(folder: Path, release: str | None, said: str = "") -> dict[str, str]:
    """An environment whose Java has this release file, or prints this for its version."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return {"JAVA_HOME": str(folder), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2"])
def test_java_17_and_21_are_accepted(tmp_path: Path, version: str) -> None:
    """The version is read from the release file, or asked for where there is none."""
    check_java(fake_java(tmp_path / "a", version))
    check_java(fake_java(tmp_path / "b", None, f'openjdk version "{version}" 2025-04-15'))


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25"])
def test_other_versions_of_java_are_refused_with_the_fix(tmp_path: Path, version: str) -> None:
    """The line names the version found and how to get a right one."""
    with pytest.raises(
        UsageError, match=rf"17 or 21, and .* is {version}; install it .*JAVA_HOME"
    ) as refusal:
        check_java(fake_java(tmp_path, version))
    assert "\n" not in str(refusal.value)


def test_a_missing_java_is_refused_with_the_fix(tmp_path: Path) -> None:
    """Without any Java the line says where it was looked for."""
    with pytest.raises(UsageError, match="no Java in the PATH; install it"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(UsageError, match=f"no Java in {tmp_path}/bin"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_a_java_that_says_nothing_is_refused(tmp_path: Path) -> None:
    """A program called java that is none does not pass."""
    with pytest.raises(UsageError, match="is no Java"):
        check_java(fake_java(tmp_path, None, "hello"))
    assert major_version("hello") == 0


def test_what_was_submitted_wins() -> None:
    """Settings of the variable for spark-submit stay as they are, in every spelling."""
    submitted = submit_settings(
        "--conf=spark.ui.enabled=true -c spark.x=a=b --driver-memory=4g pyspark-shell"
    )
    settings = session_settings("job", "local[3]", submitted, "/log")
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.x"] == "a=b"
    assert settings["spark.driver.memory"] == "4g"
    assert settings["spark.scheduler.mode"] == "FAIR"
    assert settings["spark.task.maxFailures"] == "1"


def test_a_local_spark_listens_on_the_loopback_and_a_cluster_does_not() -> None:
    """Executors on other machines must reach the driver; nobody needs to when there are none."""
    assert session_settings("job", "local[2]", {}, "/log")["spark.driver.bindAddress"] == LOOPBACK
    assert "spark.driver.host" not in session_settings("job", "spark://node:7077", {}, "/log")
    assert not is_local("local-cluster[2,1,1024]")


def test_workers_run_the_same_interpreter_unless_they_are_elsewhere() -> None:
    """On one machine the driver's interpreter wins; on a cluster the user's choice stands."""
    import sys

    mine = {"PYSPARK_PYTHON": "/opt/python"}
    assert launch_environment(mine, local=True)["PYSPARK_PYTHON"] == sys.executable
    assert launch_environment(mine, local=False) == mine
    assert launch_environment({}, local=False)["PYSPARK_PYTHON"] == sys.executable


def test_every_logger_has_a_name_and_a_level() -> None:
    """The properties for Log4j are pairs of one line each, and each key is there once."""
    lines = [line.partition(" = ") for line in logging_properties().splitlines()]
    keys = [key for key, _, value in lines if value]
    assert len(keys) == len(lines) == len(set(keys))


BARRIER = (
    "An error occurred while calling o55.collect.\n: org.apache.spark.SparkException: Job aborted due to "
    "stage failure: Could not recover from a failed barrier "
    "ResultStage. Most recent failure reason: Stage failed "
    "because barrier task ResultTask(4, 1) finished unsuccessfully.\n"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            BARRIER
            + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): x\n\tat y",
            "the Python worker of slot 1 died: killed by a signal, out of memory, or stopped by itself",
        ),
        (
            BARRIER + "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137\nDriver stacktrace:",
            "executor 0 was lost: Command exited with code 137",
        ),
        (
            BARRIER + 'Traceback (most recent call last):\n  File "x", line 1, in f\n    g()\n'
            "headgate.common.errors.ProtocolError: wrong secret\n\n\tat org.apache.spark",
            "the Python worker of slot 1 raised headgate.common.errors.ProtocolError: wrong secret",
        ),
        ("[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group x", "it was cancelled"),
        ("Job 0 cancelled because SparkContext was shut down", "the Spark session was stopped"),
        ("[Errno 111] Connection refused", "Spark's JVM in the driver ended"),
        ("Answer from Java side is empty", "Spark's JVM in the driver ended"),
        (
            "[SPARK-24819]: Barrier execution mode does not allow",
            "Spark has fewer task slots than the gang needs; were executors lost?",
        ),
        (
            "An error occurred while calling o1.x.\n: java.lang.IllegalStateException: odd\n\tat a.b",
            "java.lang.IllegalStateException: odd",
        ),
        ("", "Spark gave no reason"),
    ],
)
def test_pages_of_spark_become_one_sentence(text: str, sentence: str) -> None:
    """The one fact that helps is found; the rest is left out."""
    assert shortened(text) == sentence


def test_no_reason_is_longer_than_a_sentence() -> None:
    """Whatever Spark says, it does not flood the terminal."""
    assert len(shortened("java.lang.X: " + "y" * 5000)) == SENTENCE_MAX
