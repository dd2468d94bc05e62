"""What the page asks the driver for, of a real job: rates, history, attempts, settings, and events."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from watched_jobs import PATIENCE_S, Watched, watched

from headgate.runtime.driver.endpoint.page.event_streams import STREAMS_MAX
from headgate.runtime.driver.endpoint.page.page_files import FILES, HEADERS
from headgate.runtime.driver.endpoint.page.shown_settings import MASK

SAMPLING = "headgate-samples"
SECRET = "sëcret/of-the-bucket"


def busy(status: Any) -> bool:
    """Whether the job runs and something is known of its operators."""
    return status["state"] == "running" and all(each["busy"] is not None for each in status["vertices"])


def test_rates_name_the_bottleneck(tmp_path: Path) -> None:
    """The slow operator is busy, the source waits for it, and the sentence names uid and skew."""
    with watched(tmp_path) as job:
        found = job.waits("/v1/snapshot", lambda status: status["bottleneck"] is not None)
        source, slow = found["vertices"]
        assert (found["bottleneck"]["vertex"], slow["id"]) == (1, 1)
        assert found["bottleneck"]["text"].startswith("'count -> text -> out' is the bottleneck")
        assert slow["busy"] > 0.8 > source["busy"]
        assert source["backpressured"] > 0.2
        assert min(slow["records_in"], slow["in_per_s"]) > 0
        subtasks = job.gets("/v1/subtasks")["vertices"][1]
        assert subtasks["uids"] == ["count", "text", "out"]
        assert [each["subtask"] for each in subtasks["subtasks"]] == [0, 1]
        assert sum(each["numbers"]["headgate_records_in_total"] for each in subtasks["subtasks"]) > 0
        assert all(each["pid"] > 0 and each["host"] for each in subtasks["subtasks"])
        rates = [each["rates"] for each in subtasks["subtasks"]]
        times = [each[kind] for each in rates for kind in ("busy", "backpressured", "idle", "waiting")]
        assert sum(times) == pytest.approx(len(rates))


def test_history_grows_by_a_sample_a_second(tmp_path: Path) -> None:
    """A page that is opened late sees what was before."""
    with watched(tmp_path) as job:
        found = job.waits("/v1/history", lambda history: len(history["time_ms"]) >= 3)
        gaps = [after - before for before, after in zip(found["time_ms"], found["time_ms"][1:], strict=False)]
        assert min(gaps) >= 900
        assert [each["id"] for each in found["vertices"]] == [0, 1]
        assert {len(each["busy"]) for each in found["vertices"]} == {len(found["time_ms"])}
        assert max(value or 0 for value in found["vertices"][1]["busy"]) > 0.5


def test_attempts_tell_what_failed_where(tmp_path: Path) -> None:
    """Each failure has the user's file and line; the next attempt says from which checkpoint it began."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", lambda status: status["checkpoints_completed"] > 0)
        job.sky.text = "no such city"
        story = job.waits("/v1/failures", lambda story: len(story["attempts"]) > 1)
        first, second = story["attempts"]
        assert (story["failures"], first["end"], second["end"]) == (1, "failed", "")
        assert first["error"]["message"] == "ValueError: no such city"
        assert first["error"]["kind"] == "ValueError"
        assert first["error"]["operator"] == "operator 'Slow' (uid 'count')"
        assert "watched_jobs.py:" in first["error"]["line"]
        assert first["error"]["traceback"].rstrip().endswith("ValueError: no such city")
        assert first["began_ms"] <= first["running_ms"] <= first["ended_ms"] < second["began_ms"]
        assert (first["checkpoint"], second["checkpoint"] is not None) == (None, True)


def test_a_failure_that_repeats_is_counted(tmp_path: Path) -> None:
    """From the third time on the page says how often it came, and what can be done."""
    with watched(tmp_path, **{"restart-strategy.fixed-delay.delay": "10ms"}) as job:
        for _ in range(4):
            before = job.sky.raised
            job.sky.text = "odd"
            job.waits("/v1/failures", lambda story, before=before: story["failures"] > before)
        attempts = job.gets("/v1/failures")["attempts"]
        assert max(each["repeats"] or 0 for each in attempts) >= 3
        # It is "the same record fails" where the job begins each time with the record that failed.
        assert any(" time since " in (each["advice"] or "") for each in attempts)


def test_checkpoints_say_why_they_took_long(tmp_path: Path) -> None:
    """With the state of each vertex, each subtask's times, and the path of the slowest barrier."""
    with watched(tmp_path) as job:
        found = job.waits(
            "/v1/checkpoint-times",
            lambda times: any(each["status"] == "completed" for each in times["checkpoints"]),
        )
        done = next(each for each in found["checkpoints"] if each["status"] == "completed")
        assert done["acknowledged"] == done["tasks"] == 4
        assert done["state"]["1"] > 0
        assert done["why"]
        whole = job.gets(f"/v1/checkpoint-times/{done['checkpoint']}")
        assert {each["label"] for each in whole["subtasks"]} == {
            "'ticks'[0]", "'ticks'[1]", "'count -> text -> out'[0]", "'count -> text -> out'[1]"
        }  # fmt: skip
        assert whole["path"]["hops"]
        assert job.asks("/v1/checkpoint-times/4711")[0] == 404


def test_settings_say_where_they_come_from_and_hide_secrets(tmp_path: Path) -> None:
    """A secret is in no answer, also where the text of a failure has it."""
    with watched(tmp_path, **{"s3.access-key": "AKIAEXAMPLE", "s3.secret-key": SECRET}) as job:
        options = {each["key"]: each for each in job.gets("/v1/config")["options"]}
        assert options["execution.checkpointing.interval"]["value"] == "500ms"
        assert options["execution.checkpointing.interval"]["origin"] == "program"
        assert options["execution.checkpointing.mode"]["is_set"] is False
        assert options["s3.secret-key"]["value"] == options["s3.access-key"]["value"] == MASK
        job.sky.text = f"cannot log in with {SECRET}"
        job.waits("/v1/failures", lambda story: story["failures"] > 0)
        for path in ("/v1/failures", "/v1/config", "/v1/snapshot", "/v1/subtasks", "/v1/plan", "/v1/history"):
            body = job.asks(path)[2].decode()
            assert [each for each in (SECRET, "AKIAEXAMPLE", job.file.secret) if each in body] == [], path
        assert MASK in job.asks("/v1/failures")[2].decode()


def test_stacks_are_sampled_while_they_are_wanted(tmp_path: Path) -> None:
    """What the slow operator does is found; afterwards nothing is sampled, and the result is kept."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", busy)
        assert job.gets("/v1/profile") == {"number": 0, "runs": False, "stacks": {}}
        for wrong in ("{", '{"seconds": 0}', '{"seconds": 61}', '{"for": 1}'):
            assert job.asks("/v1/profile", "POST", wrong)[0] == 400
        assert job.asks("/v1/profile", "POST", '{"seconds": 2}')[0] == 200
        found = job.waits("/v1/profile", lambda profile: not profile["runs"])
        assert found["number"] == 1
        begin = "operator 'Slow' (uid 'count');Slow.process ("
        assert sum(times for stack, times in found["stacks"].items() if stack.startswith(begin)) > 10
        job.waits("/v1/profile", lambda _: SAMPLING not in [each.name for each in threading.enumerate()])
        assert job.gets("/v1/profile") == found


class Stream:
    """An open stream of events."""

    def __init__(self, job: Watched) -> None:
        parts = urlsplit(job.file.address)
        self.line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        self.line.request("GET", "/v1/events", headers={"Authorization": f"Bearer {job.file.secret}"})
        self.answer = self.line.getresponse()

    def event(self) -> dict[str, Any]:
        """The next one; {} when the stream has ended."""
        found: dict[str, Any] = {}
        while (line := self.answer.readline().decode().rstrip("\n")) or not found:
            if not line:
                return {}
            name, _, value = line.partition(": ")
            found[name] = json.loads(value) if name in ("data", "id") else value
        return found

    def close(self) -> None:
        """The page leaves."""
        self.answer.close()
        self.line.close()


def test_events_come_each_second_until_the_end(tmp_path: Path) -> None:
    """The last one says how the job ended, and closes the stream."""
    with watched(tmp_path) as job:
        job.waits("/v1/snapshot", busy)
        stream = Stream(job)
        assert stream.answer.getheader("content-type") == "text/event-stream"
        began = time.monotonic()
        events = [stream.event() for _ in range(3)]
        assert [each["event"] for each in events] == ["status"] * 3
        assert [each["id"] - events[0]["id"] for each in events] == [0, 1, 2]
        assert 1.5 < time.monotonic() - began < 15
        job.handle.cancel()
        last = events[-1]
        while more := stream.event():
            last = more
        assert last["data"]["state"] == "cancelled"


def test_a_failure_is_told_at_once(tmp_path: Path) -> None:
    """And not with the next second's event: the strip about a restart is there for as long as the wait is."""
    with watched(tmp_path, **{"restart-strategy.fixed-delay.delay": "2s"}) as job:
        stream = Stream(job)
        job.waits("/v1/snapshot", busy)
        job.sky.text = "now"
        while (data := stream.event()["data"])["failures"] == 0:
            pass
        assert data["restart_at_ms"] > data["time_ms"]
        assert "ValueError: now" in data["last_failure"]


def test_pages_beyond_the_limit_ask_instead(tmp_path: Path) -> None:
    """Sixteen have streams, the next is told to poll; commands are answered, and a place gets free again."""
    with watched(tmp_path) as job:
        streams = [Stream(job) for _ in range(STREAMS_MAX)]
        assert all(stream.event()["event"] == "status" for stream in streams)
        status, headers, body = job.asks("/v1/events")
        assert (status, headers["retry-after"]) == (503, "5")
        assert "/v1/snapshot" in json.loads(body)["error"]["message"]
        assert job.gets("/v1/snapshot")["name"] == "ticks"
        assert job.handle.status().state == "running"
        status, _, body = job.asks("/v1/checkpoint", "POST", "{}")
        assert (status, json.loads(body)["what"]) == (202, "checkpoint")
        streams[0].close()
        until = time.monotonic() + PATIENCE_S
        while (again := Stream(job)).answer.status != 200:
            again.close()
            assert time.monotonic() < until
            time.sleep(0.05)
        assert again.event()["event"] == "status"
        for stream in (again, *streams):
            stream.close()


def test_a_page_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    """Its events are dropped, those of others come as ever."""
    with watched(tmp_path) as job:
        silent, other = Stream(job), Stream(job)
        numbers = [other.event()["id"] for _ in range(3)]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        silent.close()


def test_files_need_no_secret_and_data_does(tmp_path: Path) -> None:
    """The files hold nothing of the job, and have the headers that keep other sites and scripts out."""
    with watched(tmp_path) as job:
        for path in FILES:
            status, headers, body = job.asks(path, Authorization=None)
            assert (status, bool(body)) == (200, True), path
            assert {name: headers[name] for name in HEADERS} == HEADERS
            assert [each for each in (job.file.secret, job.file.job_id) if each.encode() in body] == []
        policy = job.asks("/", Authorization=None)[1]["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        for path in (
            "/v1/events",
            "/v1/snapshot",
            "/v1/subtasks",
            "/v1/config",
            "/v1/failures",
            "/v1/history",
        ):
            assert job.asks(path, Authorization=None)[0] == 401
            assert job.asks(path, Authorization="Bearer wrong")[0] == 401
        assert job.asks("/", "POST", "{}", Authorization=None)[0] == 401


def test_other_sites_get_nothing(tmp_path: Path) -> None:
    """Neither by their own name for this machine (DNS rebinding), nor by requests from their pages (CSRF)."""
    with watched(tmp_path) as job:
        for path in ("/", "/page/app.js", "/v1/snapshot", "/v1/events"):
            assert job.asks(path, Host="evil.example")[0] == 421
            assert job.asks(path, Origin="https://evil.example")[0] == 403
            assert job.asks(path, Origin="null")[0] == 403
        for name in ("cancel", "stop", "checkpoint"):
            path, form = f"/v1/{name}", "application/x-www-form-urlencoded"
            assert job.asks(path, "POST", "{}", Origin="https://evil.example")[0] == 403
            assert job.asks(path, "POST", "{}", Authorization=None, Origin=job.file.address)[0] == 401
            assert job.asks(path, "POST", "{}", **{"Content-Type": form})[0] == 415
            assert job.asks(path, "OPTIONS", Authorization=None, Origin="https://evil.example")[0] == 403
            assert job.asks(path, "GET")[0] == 405
        assert job.gets("/v1/snapshot")["state"] not in ("cancelled", "cancelling")


@pytest.mark.parametrize("body", ['{"level": "loud"}', '{"level": "debug", "logger": 3}', "{}"])
def test_other_levels_of_logging_are_refused(tmp_path: Path, body: str) -> None:
    """The answer says which fields there are."""
    with watched(tmp_path) as job:
        status, _, answer = job.asks("/v1/log-level", "POST", body)
        assert status == 400
        assert b"level, logger" in answer
