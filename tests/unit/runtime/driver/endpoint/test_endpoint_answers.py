"""What the endpoint answers, and how its life is tied to the job's."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from endpoint_samples import ID, PATIENCE_S, Answering, answering, status_of_sample

import headgate as hg
from headgate.common.files.job_files import known_jobs
from headgate.common.settings.config import Config
from headgate.runtime.driver.endpoint import report_route
from headgate.runtime.driver.endpoint.endpoint_settings import endpoint_settings
from headgate.runtime.driver.endpoint.guard import BODY_BYTES_MAX
from headgate.runtime.driver.endpoint.http_server import CONNECTIONS_MAX
from headgate.runtime.driver.endpoint.operations import PENDING_MAX
from headgate.runtime.driver.endpoint.serving import Endpoint

HERE = Path(__file__).parent
TLS = {
    "security.ssl.rest.certfile": str(HERE / "test_certificate.pem"),
    "security.ssl.rest.keyfile": str(HERE / "test_key.pem"),
}


def test_wishes_arrive_as_they_were_meant(served: Answering) -> None:
    """Every method of the client is the same call in the driver, and its answer comes back."""
    job = served.job
    assert job.checkpoint() == "file:///checkpoint"
    assert job.savepoint() == "file:///savepoint"
    assert job.savepoint("/there", "native") == "file:///savepoint"
    # This driver does not end, which is waited for as long as the caller has time.
    assert job.stop("/there", drain=True, timeout_s=3) == "file:///stop"
    job.rescale(7, from_last=True)
    job.cancel(timeout_s=0)
    assert served.control.wishes == [
        ("checkpoint",),
        ("savepoint", None, "canonical"),
        ("savepoint", "/there", "native"),
        ("stop", "/there", "canonical", True),
        ("rescale", 7, True),
        ("cancel",),
    ]
    assert job.status() == status_of_sample()
    assert (job.name, job.job_id, job.done) == ("words", ID, False)
    assert job.checkpoints() == {"job": ID, "job_name": "words", "checkpoints": []}
    (vertex,) = job.plan()["vertices"]
    assert [operator["uid"] for operator in vertex["operators"]] == ["in", "map-1", "out"]


def test_a_part_of_a_report_that_fails_is_named(served: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason, masked; the other parts are there. A machine may not tell its load."""

    def hidden() -> None:
        raise OSError("no /proc")

    def fails() -> None:
        raise RuntimeError("dictionary changed size, password=hidden1")

    monkeypatch.setattr(os, "getloadavg", hidden)
    monkeypatch.setattr(report_route, "threads", fails)
    status, found = served.asks("GET", "/v1/report")
    assert (status, found["machine"]["load"]) == (200, None)
    assert found["missing"]["threads"] == "RuntimeError: dictionary changed size, password=******"
    assert {"status", "configuration", "versions", "warnings"} <= found.keys()


@pytest.mark.parametrize(
    "error",
    [hg.OperatingError("not now"), hg.ConfigError("no such format"), hg.StorageError("full"),
     hg.UsageError("too few key groups")],
)  # fmt: skip
def test_errors_arrive_as_what_they_are(served: Answering, error: hg.HeadgateError) -> None:
    """The client raises what the driver's caller would have got."""
    served.control.error = error
    with pytest.raises(type(error), match=str(error)):
        served.job.savepoint()


def test_an_error_in_headgate_itself_is_told_as_one_of_the_job(served: Answering) -> None:
    """The client's own process has no bug to report."""
    served.control.error = hg.UserFunctionError("count", "1", "ValueError: no", 2)
    with pytest.raises(hg.OperatingError, match="count raised ValueError"):
        served.job.checkpoint()


def test_an_outcome_is_awaited_and_kept(served: Answering) -> None:
    """An operation has a number; it is running, then done, however often one asks."""
    served.control.holds = True
    status, begun = served.asks("POST", "/v1/savepoint", b"{}")
    path = f"/v1/operations/{begun['operation']}"
    assert (status, begun["state"]) == (202, "running")
    assert served.asks("GET", path)[1]["state"] == "running"
    served.control.held[0]("file:///sp", None)
    for _ in range(2):
        found = served.asks("GET", f"{path}?wait_ms=20000")[1]
        assert (found["state"], found["result"], found["what"]) == ("done", "file:///sp", "savepoint")
    assert served.asks("GET", f"{path}?wait_ms=soon")[0] == 400


def test_who_waits_too_short_is_told_so(served: Answering) -> None:
    """The wish goes on without them."""
    served.control.holds = True
    with pytest.raises(TimeoutError, match="savepoint of job 'words' goes on"):
        served.job.savepoint(timeout_s=0)
    assert len(served.control.held) == 1
    served.control.held[0]("file:///sp", None)


def test_wishes_under_way_have_a_limit(served: Answering) -> None:
    """Memory is bounded, whoever asks."""
    served.control.holds = True
    answers = [served.asks("POST", "/v1/savepoint", b"{}")[0] for _ in range(65)]
    assert answers == [202] * 64 + [409]
    for then in served.control.held:
        then("file:///sp", None)


@pytest.mark.parametrize("key", ["ada", "4/2", 42, 1.5, True, ("a", 1), b"\0\xff"])
def test_live_state_is_asked_by_exact_keys(key: Any) -> None:
    """Key, uid and name come through as they are, with slashes and all."""
    asked: list[Any] = []

    def live(uid: str, state: str, key: Any) -> Any:
        asked.append((uid, state, key))
        return {"n": 1}

    with answering(live) as served:
        found = served.job.look("my/uid %2F", "count", key)
    assert found == {"value": {"n": 1}, "in_json": True, "text": "{'n': 1}"}
    assert [(asked, type(asked[0][2])) for asked in [asked]] == [([("my/uid %2F", "count", key)], type(key))]


def test_a_key_that_holds_nothing_is_an_error_of_its_own(served: Answering) -> None:
    """404 and NoEntryError, which a misspelt key should look like."""
    with pytest.raises(hg.NoEntryError, match="holds nothing under key 'ada'"):
        served.job.look("count", "n", "ada")
    assert served.asks("GET", "/v1/state/count/n?key={oops")[0] == 400
    assert served.asks("GET", '/v1/state/count/n?key={"day":"x"}')[0] == 400
    assert served.asks("GET", f"/v1/state/count/n?key={'[' * 5000}")[0] == 400
    assert served.asks("GET", "/v1/state/count/n")[0] == 400


def test_over_tls_the_very_certificate_is_demanded(home: Path) -> None:
    """What is said is encrypted, and another server in its place is not spoken to."""
    with answering(**TLS) as served:
        assert served.file.address.startswith("https://")
        assert served.job.status().name == "words"
        assert not served.says(b"GET /v1/job HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP")
        path = known_jobs()[0].path
        other = (HERE / "other_certificate.pem").read_text()
        path.write_text(path.read_text().replace(*(text.strip().replace("\n", "\\n") for text in
                                                   (served.file.certificate or "", other))))  # fmt: skip
        with pytest.raises(hg.OperatingError, match="CERTIFICATE_VERIFY_FAILED"):
            served.job.status()


def test_the_file_is_its_users_alone_and_goes_with_the_job(home: Path) -> None:
    """Mode 600 in a folder of mode 700, whatever the umask; the secret is in no repr."""
    before = os.umask(0)
    try:
        with answering() as served:
            (known,) = known_jobs()
            assert stat.S_IMODE(known.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(known.path.parent.stat().st_mode) == 0o700
            assert served.file.secret not in repr(known)
            assert len(served.file.secret) >= 43
    finally:
        os.umask(before)
    assert list((home / "jobs").iterdir()) == []


def test_the_end_of_the_job_reaches_who_waits_for_it(served: Answering) -> None:
    """A cancellation is answered with the state in which the job ended, although the endpoint goes, too."""
    found: list[str] = []
    asker = threading.Thread(target=lambda: found.append(served.job.cancelled(PATIENCE_S)))
    asker.start()
    while served.control.wishes != [("cancel",)]:
        pass
    served.endpoint.close("cancelled")
    asker.join(PATIENCE_S)
    assert found == ["cancelled"]
    with pytest.raises(hg.UsageError, match="there is no job"):
        _ = served.job


def test_a_job_that_ended_is_done_for_its_client(served: Answering) -> None:
    """Questions say so; a cancellation is content."""
    job = served.job
    served.endpoint.close("finished")
    for thread in threading.enumerate():
        if thread.name == "headgate-endpoint":
            thread.join(PATIENCE_S)
    assert job.done
    job.cancel()
    with pytest.raises(hg.OperatingError, match="has ended, or its driver died"):
        job.savepoint()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "driver.example", "localhost.example"])
def test_other_machines_are_let_in_over_tls_only(address: str) -> None:
    """Without TLS anybody on the way could read the secret."""
    config = Config().with_program({"rest.bind-address": address})
    with pytest.raises(hg.ConfigError, match=r"rest\.bind-address is .* without TLS"):
        endpoint_settings(config, by_default=True)
    settings = endpoint_settings(config.with_program(TLS), by_default=True)
    assert settings is not None
    near = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    assert settings.reached_at(7) == f"https://{near.get(address, address)}:7"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security.ssl.rest.certfile": "x"}, "certfile is set and security.ssl.rest.keyfile is not"),
        ({"security.ssl.rest.keyfile": "x"}, "keyfile is set and security.ssl.rest.certfile is not"),
        ({**TLS, "security.ssl.rest.keyfile": "/nowhere.pem"}, "there is no such file"),
        (
            {**TLS, "security.ssl.rest.keyfile": TLS["security.ssl.rest.certfile"]},
            "do not make a certificate",
        ),
    ],
)
def test_half_a_configuration_is_refused(options: dict[str, str], said: str) -> None:
    """Before anything starts."""
    with pytest.raises(hg.ConfigError, match=said):
        endpoint_settings(Config().with_program(options), by_default=True)


def test_a_port_in_use_is_refused(served: Answering) -> None:
    """With the options' names."""
    port = int(served.file.address.rpartition(":")[2])
    settings = endpoint_settings(Config().with_program({"rest.port": port}), by_default=True)
    assert settings is not None
    with pytest.raises(hg.ConfigError, match=rf"nothing can listen on 127\.0\.0\.1:{port}.*rest\.port"):
        Endpoint(settings)


def test_it_can_be_switched_off_and_on() -> None:
    """`auto` leaves it to whoever runs the job."""
    off, on = Config().with_program({"rest.enabled": False}), Config().with_program({"rest.enabled": True})
    assert [endpoint_settings(config, by_default=True) is None for config in (Config(), off, on)] == [
        False, True, False,
    ]  # fmt: skip
    assert [endpoint_settings(config, by_default=False) is None for config in (Config(), off, on)] == [
        True, True, False,
    ]  # fmt: skip


def test_without_a_folder_for_its_file_a_job_runs_unless_it_was_to_be_reachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would know where it answers: that is a warning, or an error where the endpoint was asked for."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "file"))
    with pytest.raises(hg.StorageError, match="HEADGATE_HOME"), answering():
        pass


def test_the_page_lists_every_route_and_limit() -> None:
    """What is said of the endpoint is what there is."""
    page = (HERE.parents[4] / "docs" / "control.md").read_text()
    source = (HERE.parents[4] / "src/headgate/runtime/driver/endpoint/app.py").read_text()
    routes = re.findall(r'\("(GET|POST)", "(/v1/[a-z]+)', source)
    assert len(routes) == 10
    assert [route for route in routes if f"`{' '.join(route)}" not in page] == []
    assert (BODY_BYTES_MAX, PENDING_MAX, CONNECTIONS_MAX) == (64 * 1024, 64, 256)
    for said in ("64 KiB", "64 operations", "beyond 256"):
        assert said in page
