"""URIs and settings of storages: what is taken, what is refused, and that no key is shown."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.storage.objects import ObjectDisk, _config
from headgate.checkpoint.storage.settings import (
    StorageSettings,
    storage_settings,
    storage_settings_in_use,
    use_storage_settings,
)
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.storage.webhdfs import WebHdfsDisk
from headgate.common.errors import ConfigError
from headgate.common.settings.config import Config

SECRET = "wJalrXUtnFEMI"


def configured(values: dict[str, str]) -> StorageSettings:
    """Settings of a program's configuration."""
    return storage_settings(Config().with_program(values))


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("s3://bucket/a/prefix", ObjectDisk),
        ("s3a://bucket", ObjectDisk),
        ("memory://name/folder", MemoryDisk),
        ("hdfs://namenode/path", WebHdfsDisk),
        ("webhdfs://namenode:9870/path", WebHdfsDisk),
        ("swebhdfs://namenode:9871/path", WebHdfsDisk),
    ],
)
def test_schemes(uri: str, kind: type) -> None:
    """Each scheme has its disk; opening asks nothing of anybody, and the root is told as it was given."""
    disk = open_disk(uri, StorageSettings(s3_access_key="id", s3_secret_key=SECRET))
    assert isinstance(disk, kind)
    assert disk.describe("x") == f"{uri.replace('s3a:', 's3:')}/x"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket/x?region=y", "has a '#' or '?'; write %23 or %3F"),
        ("s3://bucket/a#b", "has a '#' or '?'"),
        ("hdfs://namenode/a#b", "has a '#' or '?'"),
        ("memory://name/a#b", "has a '#' or '?'"),
        ("file:///a#b", "has a '#' or '?'"),
        ("memory:x", "names no storage"),
        ("hdfs:///path", "names no name node"),
        ("gs://bucket/x", "scheme 'gs', which is not supported; use a path, file:///path, s3:"),
    ],
)
def test_refused(uri: str, said: str) -> None:
    """What lacks a part, or is of another scheme, is refused in one sentence."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        open_disk(uri)


ODD = ["a#b/c", "a%20b", "a b", "grün?x=y"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("root", ["memory://names/x", "s3://bucket/x", "hdfs://namenode/x", "/names/x"])
def test_a_folder_is_found_again_by_its_uri(root: str, name: str, tmp_path: Path) -> None:
    """Whatever letters its name has, also those that mean something in a URI."""
    disk = open_disk(f"{tmp_path}{root}" if root[0] == "/" else root)
    again = open_disk(disk.describe(name))
    assert again.describe("y") == disk.describe(f"{name}/y")
    if isinstance(again, ObjectDisk):
        assert again._store.prefix == f"x/{name}"
    elif isinstance(again, WebHdfsDisk):
        assert again._root == f"/x/{name}"
    else:
        disk.create(f"{name}/y", [b"1"])
        assert again.read("y") == b"1"


@pytest.mark.parametrize("root", ["memory://names/x", "s3://bucket/x", "hdfs://namenode/x"])
def test_half_a_character_in_a_name_can_be_told(root: str) -> None:
    """Stored bytes may bring one; the message about the file must not be an error itself."""
    assert open_disk(root).describe("a\ud800") == f"{root}/a%ED%A0%80"


def test_bucket_in_path_or_host() -> None:
    """The bucket is in the path of an endpoint of one's own, and in the host of AWS, unless it is said."""

    def told(style: bool | None, endpoint: str | None) -> tuple[object, object]:
        found = _config(StorageSettings(s3_path_style=style), endpoint, "bucket")
        return found.get("endpoint"), found.get("virtual_hosted_style_request")

    assert told(None, None) == (None, True)
    assert told(True, None) == (None, False)
    assert told(None, "http://host:9000") == ("http://host:9000", None)
    assert told(True, "http://host:9000") == ("http://host:9000", False)
    assert told(False, "https://host") == ("https://bucket.host", True)


def test_keys_come_in_pairs_and_are_not_shown() -> None:
    """Half a credential is refused; a whole one travels to workers, and is in no text."""
    for half, missing in (("s3.access-key", "s3.secret-key"), ("s3.secret-key", "s3.access-key")):
        with pytest.raises(ConfigError, match=f"{half} is set but {missing} is not"):
            configured({half: SECRET})
    whole = configured({"s3.access-key": "id", "s3.secret-key": SECRET})
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert whole.s3_secret_key == SECRET
    assert SECRET not in f"{whole!r} {open_disk('s3://bucket/x', whole)!r}"


def test_settings_in_use() -> None:
    """Storages opened without settings get what the process was told last."""
    before = storage_settings_in_use()
    try:
        use_storage_settings(StorageSettings(hdfs_http_address="a:1"))
        assert storage_settings_in_use().hdfs_http_address == "a:1"
    finally:
        use_storage_settings(before)


def test_memory_storages_are_apart() -> None:
    """Storages of other names, and folders in one, show their own files; a folder can be forgotten."""
    whole, part, other = MemoryDisk("apart"), MemoryDisk("apart/a"), MemoryDisk("other")
    part.create("x", [b"1"])
    whole.create("b", [b"2"])
    assert (whole.list(""), part.list(""), other.list("")) == (["a/x", "b"], ["x"], [])
    part.forget()
    assert whole.list("") == ["b"]
    whole.forget()
