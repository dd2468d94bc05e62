"""Which events a job's lineage puts, and what becomes of those that are not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.common.errors import ConfigError, OperatingError
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.system import SystemClock
from headgate.common.settings.config import Config
from headgate.runtime.driver.lineage.job_lineage import JobLineage, LineageSettings, lineage_settings
from headgate.runtime.driver.lineage.lineage_client import Happened

HERE = LineageSettings("http://127.0.0.1:9", None, None, "shop", "told", 1_000, {})


def lineage(settings: LineageSettings = HERE) -> JobLineage:
    """Of a job without a plan: its client is the test's."""
    return JobLineage(settings, None, LoggedJob("told"), SystemClock())  # type: ignore[arg-type]


def begun(told: JobLineage, *, goes_on: bool) -> list[str]:
    """The moments of the events that are put, of a lineage that sends nothing."""
    moments: list[str] = []
    told.queue.begin = lambda: None  # type: ignore[method-assign]
    told.queue.put = lambda event: moments.append(event.moment)  # type: ignore[method-assign]
    told.begin(lambda: goes_on)
    return moments


@pytest.mark.parametrize("state", ["cancelled", "failed", "finished"])
def test_a_run_that_the_next_driver_goes_on_with_has_not_ended(state: str) -> None:
    """Neither by a handover nor by a failure: the next driver tells the end, of the same run."""
    last = {"cancelled": "ABORT", "failed": "FAIL", "finished": "COMPLETE"}[state]
    for goes_on, expected in ((True, ["START"]), (False, ["START", last])):
        told = lineage()
        moments = begun(told, goes_on=goes_on)
        told.deploying(1, None)
        if state == "failed":
            told.failed(1, OperatingError("no disk"), None)
        told.ended(state)
        assert moments == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transport:\n  type: http\n   apiKey: planted-secret\n", "not allowed here, line 3"),
        ("transport:\n  apiKey: !planted-secret\n", "for the tag '...', line 2"),
        ("transport:\n  apiKey: *planted-secret\n", "undefined alias '...', line 2"),
        ("transport:\n  apiKey: planted-secret\0\n", "ReaderError"),
    ],
)
def test_a_file_that_is_no_yaml_is_not_quoted(tmp_path: Path, text: str, said: str) -> None:
    """It may hold a key; what is wrong is said, and in which line."""
    file = tmp_path / "openlineage.yml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)) as raised:
        lineage_settings(Config().with_program({"headgate.openlineage.config": str(file)}), "told")
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"headgate.openlineage.url": "ada:planted@server:5000"}, "is '******@server:5000'; expected a URL"),
        (
            {
                "headgate.openlineage.url": "http://127.0.0.1:9",
                "headgate.openlineage.datasets": "kafka://ada:planted@broker/orders",
            },
            "has the part 'kafka://******@broker/orders'; expected uid=URI",
        ),
        (
            {
                "headgate.openlineage.url": "http://127.0.0.1:9",
                "headgate.openlineage.datasets": "in=/data, in=http://ada:planted@[bad",
            },
            "has 'http://******@[bad', which is no URI; expected one such as",
        ),
    ],
)
def test_a_login_is_in_no_refusal(settings: dict[str, str], said: str) -> None:
    """Of a URL without a scheme, of a part without a uid, and of what is no URI."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        lineage_settings(Config().with_program(settings), "told")


class Catalogue:
    """Stands for the client: notes the moments that are sent, and takes none of `refused`."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.got = refused, list[str]()

    def send(self, what: Happened) -> None:
        self.got.append(what.moment.value)
        if what.moment.value in self.refused:
            raise OSError(f"no {what.moment.value} is taken")


def test_an_event_that_is_refused_keeps_no_other_back(caplog: pytest.LogCaptureFixture) -> None:
    """Of those that are sent together; the refusal is warned of."""
    told, catalogue = lineage(), Catalogue("START")
    told._client = catalogue  # type: ignore[assignment]
    told.deploying(1, None)
    told.ended("finished")
    told.queue._deliver()
    assert catalogue.got == ["START", "COMPLETE"]
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == ["no START is taken"]
