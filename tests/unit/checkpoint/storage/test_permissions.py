"""Who may read and write what is stored: the owner alone unless a team says otherwise, whatever the mask."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate as hg
from headgate.checkpoint.local_copies import LocalCopies, remove_abandoned_copies
from headgate.checkpoint.storage.settings import storage_settings, use_storage_settings
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.files.job_files import JobFile, Occupancy, PublishedJob, this_driver_as
from headgate.common.files.permissions import Permissions, make_folder, own_folder, use_permissions
from headgate.common.ids import JobId
from headgate.common.settings.config import Config
from headgate.connectors.dataframe.to_spark_journal import Owner
from headgate.connectors.dataframe.to_spark_log import Log
from headgate.testing import PAUSE, MiniCluster, TestSource
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.loading_errors import UserCodeLoadError

KEY = "headgate.storage.permissions"


@pytest.fixture(autouse=True)
def _own_permissions() -> Iterator[None]:
    yield
    use_permissions(Permissions.OWNER)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The process's mask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(top: Path) -> tuple[set[int], set[int]]:
    """Of all folders and all files at and below a place, without the inheritance of groups."""
    folders = {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in (top, *top.rglob("*")) if path.is_dir()}
    files = {stat.S_IMODE(path.stat().st_mode) for path in top.rglob("*") if path.is_file()}
    return folders, files


def expected(option: str | None, mask: int) -> tuple[set[int], set[int]]:
    """By the option."""
    if option == "umask":
        return {0o777 & ~mask}, {0o666 & ~mask}
    return ({0o770}, {0o660}) if option == "group" else ({0o700}, {0o600})


@pytest.mark.parametrize("option", [None, "owner", "group", "umask"])
def test_folders_and_files_are_made_as_the_option_says(option: str | None, mask: int, tmp_path: Path) -> None:
    """Of checkpoints and savepoints, also the root and what is above it; of staging; of journals."""
    settings = storage_settings(Config().with_program({} if option is None else {KEY: option}))
    disk = open_disk(str(tmp_path / "a" / "checkpoints"), pickle.loads(pickle.dumps(settings)))
    disk.create("job/chk-1/x", [b"x"])
    assert disk.create_if_absent("job/log/1", b"x")
    use_storage_settings(settings)
    assert Log(tmp_path / "a" / "journal" / "line").append(Owner("a", 1))
    make_folder(tmp_path / "a" / "staged" / "rows")
    assert modes(tmp_path / "a") == expected(option, mask)


@pytest.mark.parametrize("option", ["owner", "group", "umask"])
def test_a_folder_that_existed_keeps_mode_and_group(option: str, tmp_path: Path) -> None:
    """Whether it is the root, a job's folder or one deeper."""
    settings = storage_settings(Config().with_program({KEY: option}))
    (tmp_path / "checkpoints" / "job").mkdir(parents=True)
    for folder in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "job"):
        folder.chmod(0o2755)
    disk = open_disk(str(tmp_path / "checkpoints"), settings)
    disk.create("job/chk-1/x", [b"x"])
    disk.create("job/chk-1/x", [b"again"])
    for folder in (tmp_path / "checkpoints", tmp_path / "checkpoints" / "job"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o2755
    assert modes(tmp_path / "checkpoints" / "job" / "chk-1") == expected(option, os.umask(os.umask(0o022)))


@pytest.mark.parametrize("option", [None, "group", "umask"])
def test_a_job_leaves_nothing_to_strangers(option: str | None, mask: int, tmp_path: Path) -> None:
    """Checkpoints, a savepoint and who owns the output are as the option says; the output is its readers'."""
    config = {} if option is None else {KEY: option}
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    numbers = env.from_source(TestSource([1, PAUSE(300), 2, PAUSE(300), 3]), uid="in")
    numbers.write_json(str(tmp_path / "out"), uid="out")
    with env.execute_async("job") as handle:
        while not list((tmp_path / "checkpoints").glob("[!.]*/chk-*/_metadata")):
            time.sleep(0.01)
        handle.savepoint(str(tmp_path / "savepoints"))
        handle.result()
    found = modes(tmp_path / "checkpoints")
    assert found == modes(tmp_path / "savepoints") == expected(option, mask)
    assert modes(tmp_path / "out" / "_headgate") == expected(option, mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~mask
    parts = list((tmp_path / "out").glob("part-*"))
    assert {stat.S_IMODE(part.stat().st_mode) for part in parts} == {0o666 & ~mask}
    assert sorted("".join(part.read_text() for part in parts).split()) == ["1", "2", "3"]


def test_two_jobs_of_one_process_make_each_its_own(tmp_path: Path) -> None:
    """Whichever began last, and whoever owns which output."""

    def job(option: str, *source: object) -> hg.Environment:
        env = hg.Environment(parallelism=1, executor=MiniCluster(), config={KEY: option})
        env.checkpoints(every="20ms", storage=str(tmp_path / option / "checkpoints"))
        numbers = env.from_source(TestSource(list(source)), uid="in")
        numbers.write_json(str(tmp_path / option / "out"), uid="out")
        return env

    for option in ("owner", "group"):
        (tmp_path / option).mkdir()
    with job("owner", PAUSE(400), 1, PAUSE(200), 2).execute_async("first") as first:
        while not list((tmp_path / "owner" / "checkpoints").glob("*/chk-*/_metadata")):
            time.sleep(0.01)
        with job("group", 1, PAUSE(500), 2).execute_async("second") as second:
            first.result()
            second.result()
    for option in ("owner", "group"):
        for place in (tmp_path / option / "checkpoints", tmp_path / option / "out" / "_headgate"):
            assert modes(place) == expected(option, 0)


@pytest.mark.parametrize("option", ["owner", "group", "umask"])
def test_secrets_are_the_owners_alone(
    option: str, mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the option says; and so are the copies on a worker's own disk."""
    use_storage_settings(storage_settings(Config().with_program({KEY: option})))
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    published = PublishedJob(JobFile("job-1", "job", os.getpid(), "host", 0, "http://127.0.0.1:1", "secret"))
    assert modes(tmp_path / "home") == ({0o700}, {0o600})
    published.withdraw()
    copies = LocalCopies(tmp_path / "copies", "host", JobId("job"), 0)
    with copies.copying("job/chk-1/x", None) as copy:
        list(copy.of([b"x"]))
    assert stat.S_IMODE((tmp_path / "copies" / "headgate-copies-host-job").stat().st_mode) == 0o700
    ArtifactCache(tmp_path / "code" / "cache").lease("0" * 16, lambda folder: None).release()
    for place in ("code", "code/cache"):
        assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o700


def test_a_cache_of_wheels_that_anybody_may_write_is_not_believed(tmp_path: Path) -> None:
    """What lies there runs in the job; one that only a group could write is made the owner's alone."""
    (tmp_path / "locked.txt").touch()
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(UserCodeLoadError, match="must be its owner's alone"):
        wheels_of(tmp_path / "locked.txt", cache)
    cache.chmod(0o775)
    assert wheels_of(tmp_path / "locked.txt", cache) == ()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert wheels_of(tmp_path / "locked.txt", tmp_path / "new" / "cache") == ()
    for place in ("new", "new/cache"):
        assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o700


@pytest.mark.parametrize("option", ["owner", "group", "umask"])
def test_who_is_at_work_is_told_to_those_that_the_option_names(
    option: str, mask: int, tmp_path: Path
) -> None:
    """While a job runs its files in the checkpoint storage and the output are as everything else is."""
    use_storage_settings(storage_settings(Config().with_program({KEY: option})))
    occupancy = Occupancy(tmp_path / "running", this_driver_as("job-1", "job"))
    occupancy.enter(lambda others: None)
    _, files = modes(tmp_path / "running")
    assert files == ({0o644} if option == "umask" else expected(option, mask)[1])
    occupancy.leave()


def test_a_place_for_all_is_not_trusted(tmp_path: Path) -> None:
    """What another user has made there, or a link, is neither used nor removed."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").touch()
    (tmp_path / "headgate-copies-host-job").symlink_to(tmp_path / "victim")
    with pytest.raises(PermissionError, match="a link or another user's"):
        LocalCopies(tmp_path, "host", JobId("job"), 0)
    assert remove_abandoned_copies(tmp_path, "host", tmp_path / "mine") == []
    assert (tmp_path / "victim" / "file").exists()
    if os.geteuid() == 0:
        (tmp_path / "headgate-copies-host-other").mkdir()
        os.chown(tmp_path / "headgate-copies-host-other", 12345, 12345)
        with pytest.raises(PermissionError):
            own_folder(tmp_path / "headgate-copies-host-other")
        assert remove_abandoned_copies(tmp_path, "host", tmp_path / "mine") == []


AS_USER = """
import json, os, sys
user, group, path, option, name = json.loads(sys.argv[1])
from headgate.checkpoint.storage.settings import storage_settings
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.settings.config import Config
os.umask(0o022)
os.setgroups([]); os.setgid(group); os.setuid(user)
disk = open_disk(path, storage_settings(Config().with_program({"headgate.storage.permissions": option})))
try:
    found = [disk.read(each).decode() for each in disk.list("job")]
    disk.create(f"job/chk-1/{name}", [name.encode()])
    if found:
        disk.delete("job/chk-1/first")
except Exception as error:
    found = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def as_user(user: int, group: int, path: Path, option: str, name: str) -> object:
    """What a process of another user finds in a storage, to which it then adds a file and takes one."""
    request = json.dumps([user, group, str(path), option, name])
    run = [sys.executable, "-c", AS_USER, request]
    found = subprocess.run(run, capture_output=True, text=True, timeout=100, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_team_shares_by_its_group(shared: Path) -> None:
    """Two users of one group read, write and delete each other's; the mask of neither is in the way."""
    assert as_user(10001, 20000, shared, "group", "first") == []
    assert as_user(10002, 20000, shared, "group", "second") == ["first"]
    assert as_user(10001, 20000, shared, "group", "third") == ["second"]
    assert "StorageError" in str(as_user(10003, 30000, shared, "group", "stranger"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_is_told_of_the_option(shared: Path) -> None:
    """An executor under another user finds a storage that is the driver's alone."""
    assert as_user(10001, 20000, shared, "owner", "first") == []
    found = str(as_user(10002, 20000, shared, "owner", "second"))
    assert "Permission denied" in found
    assert "set headgate.storage.permissions to group" in found


@pytest.fixture
def shared() -> Iterator[Path]:
    """A place in a folder of a group's, that all users reach."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        place = Path(made, "shared")
        place.mkdir()
        os.chown(place, 10001, 20000)
        place.chmod(0o2775)
        yield place / "checkpoints"
