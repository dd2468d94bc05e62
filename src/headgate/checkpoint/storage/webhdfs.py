"""Durable files in HDFS, over its HTTP interface: no Java and no native library on the workers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from headgate.checkpoint.storage.settings import StorageSettings, hdfs_user
from headgate.checkpoint.storage.storage_contract import UnsureWriteError, check_name, is_temporary
from headgate.checkpoint.storage.webhdfs_client import (
    RemoteError,
    UnansweredError,
    UnreachedError,
    WebHdfsClient,
)
from headgate.common.errors import ConfigError, StorageError
from headgate.common.files.durable_file import TEMPORARY_PREFIX

HTTP_PORT: Final = 9870
RENAME_ATTEMPTS: Final = 3

_ADVICE: Final = {
    "AccessControlException": "grant the user that runs the job write access, or choose another folder",
    "SafeModeException": "wait until the name node has left safe mode",
    "DSQuotaExceededException": "raise the quota or choose another folder",
    "NSQuotaExceededException": "raise the quota or choose another folder",
    "ParentNotDirectoryException": "a file stands where a folder is needed; choose another folder",
}


def open_webhdfs(uri: str, settings: StorageSettings) -> WebHdfsDisk:
    """Return the disk of a folder in HDFS: ``hdfs``, ``webhdfs`` or ``swebhdfs://namenode[:port]/path``.

    No request is sent. The name node's HTTP address is that of the settings; without one, it is the host of
    `uri`, with its port for ``webhdfs:`` and ``swebhdfs:``, else 9870. ConfigError if `uri` has no name node.
    """
    parts = urlsplit(uri)
    scheme = parts.scheme.lower()
    if not parts.hostname:
        raise ConfigError(f"checkpoint storage {uri!r} names no name node; use {scheme}://namenode/path")
    if settings.hdfs_http_address is not None:
        addresses = [item.strip() for item in settings.hdfs_http_address.split(",") if item.strip()]
    elif scheme == "hdfs" or parts.port is None:
        addresses = [f"{parts.hostname}:{HTTP_PORT}"]
    else:
        addresses = [parts.netloc]
    user = settings.hdfs_user or hdfs_user()
    client = WebHdfsClient(addresses, user, secure=scheme == "swebhdfs")
    return WebHdfsDisk(client, unquote(parts.path), f"{scheme}://{parts.netloc}{parts.path}")


class WebHdfsDisk:
    """Storage in a folder of HDFS; implements the `Disk` port, RandomAccess, KeepsTemporaries and TellsAge.

    A file is written under a temporary name in the target's folder and gets its name by a rename, which the
    name node carries out in one step, and refuses where the name must be new and is not. If the answer to
    such a rename is lost, the file's bytes show whose it is: two writers must write different bytes.
    """

    def __init__(self, client: WebHdfsClient, root: str, uri: str) -> None:
        self._client, self._root, self._uri = client, "/" + root.strip("/"), uri.rstrip("/")

    def __repr__(self) -> str:
        return f"WebHdfsDisk({self._uri!r})"

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        path = self._path(name)
        with self._temporary(name, path, parts) as temporary:
            self._replace(name, temporary, path)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        with self._refusing("write", name):
            if self._exists(path):
                return False
        with self._temporary(name, path, [data]) as temporary:
            return self._publish(name, temporary, path, data)

    def read(self, name: str) -> bytes:
        return self._open(name)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        rest = min(length, self.size(name) - offset)  # the server refuses an offset beyond the end
        return self._open(name, offset=offset, length=rest) if rest > 0 else b""

    def size(self, name: str) -> int:
        with self._refusing("read", name):
            return int(self._client.ask("GET", self._path(name), "GETFILESTATUS")["FileStatus"]["length"])

    def modified_ms(self, name: str) -> int:
        path = self._path(name, temporary_allowed=True)
        with self._refusing("read", name):
            return int(self._client.ask("GET", path, "GETFILESTATUS")["FileStatus"]["modificationTime"])

    def list(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self._walk(prefix) if not is_temporary(name))

    def temporaries(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self._walk(prefix) if is_temporary(name))

    def delete(self, name: str) -> None:
        path = self._path(name, temporary_allowed=True)
        with self._refusing("delete", name), suppress(FileNotFoundError):
            self._client.ask("DELETE", path, "DELETE", recursive="false")
        with suppress(StorageError):
            for folder in list(PurePosixPath(name).parents)[:-1]:
                self._client.ask("DELETE", self._path(str(folder)), "DELETE", recursive="false")

    def describe(self, name: str = "") -> str:
        return f"{self._uri}/{quote(name, errors='surrogatepass')}" if name else self._uri

    def _path(self, name: str, *, temporary_allowed: bool = False) -> str:
        check_name(name, self._uri, temporary_allowed=temporary_allowed)
        return f"{self._root.rstrip('/')}/{name}"

    def _exists(self, path: str) -> bool:
        try:
            self._client.ask("GET", path, "GETFILESTATUS")
        except RemoteError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _open(self, name: str, **options: int) -> bytes:
        with self._refusing("read", name):
            answer = self._client.ask("GET", self._path(name), "OPEN", noredirect="true", **options)
            return self._client.fetch(answer["Location"])

    def _walk(self, prefix: str) -> Iterator[str]:
        folders = [prefix.strip("/")]
        while folders:
            folder = folders.pop()
            for status in self._children(folder):
                name = f"{folder}/{status['pathSuffix']}".lstrip("/")
                if status["type"] == "DIRECTORY":
                    folders.append(name)
                else:
                    yield name

    def _children(self, folder: str) -> Iterator[dict[str, Any]]:
        path = self._path(folder) if folder else self._root
        try:
            with self._refusing("list", folder):
                found = self._client.ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        except FileNotFoundError:  # it vanished while it was walked, or never was
            return
        yield from (status for status in found if status["pathSuffix"])  # a file's own status has none

    @contextmanager
    def _temporary(self, name: str, path: str, parts: Iterable[bytes | memoryview]) -> Iterator[str]:
        """Write `parts` to a temporary file and yield its path; the temporary file is deleted afterwards."""
        folder = path.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            with self._refusing("write", name):
                answer = self._client.ask("PUT", temporary, "CREATE", overwrite="false", noredirect="true")
                self._client.write(answer["Location"], parts)
            yield temporary
        finally:
            with suppress(StorageError):
                self._client.ask("DELETE", temporary, "DELETE", recursive="false")

    def _replace(self, name: str, temporary: str, path: str) -> None:
        """Rename the temporary file to `path`, replacing a file there; try again where an answer is lost.

        `name` is for messages. UnsureWriteError if it remains unknown whether the file was renamed.
        """
        unanswered: StorageError | None = None
        for _ in range(RENAME_ATTEMPTS):
            try:
                self._rename(name, temporary, path, renameoptions="OVERWRITE")
                return
            except UnansweredError as error:
                unanswered = error
            except StorageError:
                if unanswered is None:
                    raise
            # Renamed; or deleted by a newer job master, under which nothing that this one writes counts.
            with suppress(StorageError):
                if not self._exists(temporary):
                    return
        assert unanswered is not None
        raise self._unsure(name, unanswered) from unanswered

    def _publish(self, name: str, temporary: str, path: str, data: bytes) -> bool:
        """Rename the temporary file, of bytes `data`, to `path`; return False, doing nothing, if it exists.

        After a lost answer the file counts as this writer's if it has the bytes `data`. UnsureWriteError if
        that cannot be read; StorageError if the temporary file is gone.
        """
        unanswered: StorageError | None = None
        for _ in range(RENAME_ATTEMPTS):
            try:
                if self._rename(name, temporary, path):
                    return True
                break
            except UnansweredError as error:
                unanswered = error
            except StorageError:
                if unanswered is None:
                    raise
        if unanswered is not None:
            try:
                return self.read(name) == data  # not by the temporary file, which may have been deleted
            except (StorageError, FileNotFoundError):
                raise self._unsure(name, unanswered) from unanswered
        with self._refusing("write", name):
            if self._exists(path):
                return False
        # The name node gives one answer for a name that is taken and for a file that was removed.
        raise StorageError(
            f"cannot write {self.describe(name)}: the name node did not rename {temporary}, which was "
            "removed before it got its name; make sure that no other driver runs this job, and try again"
        )

    def _rename(self, name: str, temporary: str, path: str, **options: str) -> bool:
        with self._refusing("write", name):
            answer = self._client.ask("PUT", temporary, "RENAME", destination=path, **options)
        return bool(answer.get("boolean"))

    def _unsure(self, name: str, unanswered: StorageError) -> UnsureWriteError:
        return UnsureWriteError(
            f"{self.describe(name)} was written, but whether it got its name is unknown: {unanswered}; check "
            "the connection to the name node"
        )

    @contextmanager
    def _refusing(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except RemoteError as error:
            if error.status == 404 and action != "write":
                raise FileNotFoundError(self.describe(name)) from None
            advice = _ADVICE.get(error.kind, "check the storage folder")
            raise StorageError(f"cannot {action} {self.describe(name)}: {error}; {advice}") from error
        except UnansweredError as error:
            raise UnansweredError(f"cannot {action} {self.describe(name)}: no answer from {error}") from error
        except UnreachedError as error:
            raise StorageError(
                f"cannot {action} {self.describe(name)}: {error}; check that the HTTP service of HDFS is "
                "reached there, or set dfs.namenode.http-address"
            ) from error
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise StorageError(f"cannot {action} {self.describe(name)}: {error.strerror or error}") from error
