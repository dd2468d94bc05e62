"""Durable files in an object store, through the library `obstore`; opens ``s3://bucket/prefix``.

An object becomes visible completely or not at all, so nothing is written under a temporary name. Every
write carries a mark of its own, which shows whose the object is when the answer to a write is lost.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.storage_contract import UnsureWriteError, check_name
from headgate.common.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from obstore import Attributes
    from obstore.store import ClientConfig, ObjectStore, S3Config

PART_BYTES: Final = 16 * 1024 * 1024  # of a larger file; a service takes 10,000 parts, so 160 GB in a file
PARTS_AT_ONCE: Final = 4
CREATE_ATTEMPTS: Final = 4
MARK: Final = "headgate-write"
REQUEST_TIMEOUT: Final = timedelta(seconds=60)
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
RETRIES: Final = 4
RETRY_TIMEOUT: Final = timedelta(seconds=90)

_STATUS: Final = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_CERTAIN_STATUS: Final = re.compile(r"\bstatus: (?:400|401|403|404|405|411|412|413|501)\b")

_ADVICE: Final = {
    "403": "check the credentials and that they may read, write, list and delete there",
    "401": "check the credentials",
    "404": "create the bucket or choose another one",
    "301": "set s3.endpoint.region to the bucket's region",
    "400": "check the credentials, s3.endpoint.region and s3.path.style.access",
}


class ObjectDisk:
    """Storage below a URI in an object store such as S3; implements `Disk`, RandomAccess and TellsAge.

    `store` repeats requests that may be repeated; `once` does not, for writes whose repetition has to be
    watched. A write whose answer is lost is looked up by its mark; if that fails, it is an UnsureWriteError.
    """

    def __init__(self, store: ObjectStore, once: ObjectStore, uri: str) -> None:
        self._store, self._once, self._uri = store, once, uri.rstrip("/")

    def __repr__(self) -> str:
        return f"ObjectDisk({self._uri!r})"

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        import obstore

        check_name(name, self._uri)
        mark, source = secrets.token_hex(16), _Source(parts)
        attributes: Attributes = {MARK: mark}
        try:
            first = source.up_to(PART_BYTES)
            if source.ended:
                obstore.put(self._store, name, first, attributes=attributes, use_multipart=False)
            else:
                obstore.put(
                    self._store, name, chain([first], source), attributes=attributes,
                    use_multipart=True, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE,
                )  # fmt: skip
        except BaseException as error:
            if isinstance(source.error, OSError):
                why = source.error.strerror or source.error
                raise StorageError(f"cannot write {self.describe(name)}: {why}") from source.error
            if source.error is not None:
                raise source.error  # noqa: B904  # `error` may be the same one, which would be its own cause
            if not _of_the_store(error):
                raise
            if _nothing_visible(error) or self._owner(name) != mark:
                raise self._write_error(name, error) from error

    def create_if_absent(self, name: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        check_name(name, self._uri)
        mark = secrets.token_hex(16)
        attributes: Attributes = {MARK: mark}
        unanswered: BaseException | None = None
        last: BaseException | None = None
        for _ in range(CREATE_ATTEMPTS):
            try:
                obstore.put(self._once, name, data, attributes=attributes, mode="create", use_multipart=False)
                return True
            except BaseException as error:
                if not _of_the_store(error):
                    raise
                refused = isinstance(error, AlreadyExistsError)
                if not refused and not _nothing_visible(error):
                    unanswered = error
                elif not refused and unanswered is None:
                    raise self._write_error(name, error) from error
                owner = self._owner(name)
                if owner is not None:
                    return owner == mark
                last = error
        if unanswered is None:
            raise StorageError(
                f"cannot write {self.describe(name)}: refused {CREATE_ATTEMPTS} times as existing, but it is "
                "not there; try again later"
            ) from last
        raise self._unsure(name, unanswered) from unanswered

    def read(self, name: str) -> bytes:
        import obstore

        check_name(name, self._uri)
        with self._refusing("read", name):
            return bytes(obstore.get(self._store, name).bytes())

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        import obstore

        if length <= 0:
            self.size(name)
            return b""
        check_name(name, self._uri)
        with self._refusing("read", name):
            try:
                return bytes(obstore.get_range(self._store, name, start=offset, length=length))
            except Exception as error:
                if not _of_the_store(error) or offset < self.size(name):
                    raise
                return b""

    def size(self, name: str) -> int:
        import obstore

        check_name(name, self._uri)
        with self._refusing("read", name):
            return int(obstore.head(self._store, name)["size"])

    def modified_ms(self, name: str) -> int:
        import obstore

        check_name(name, self._uri, temporary_allowed=True)
        with self._refusing("read", name):
            return int(obstore.head(self._store, name)["last_modified"].timestamp() * 1000)

    def list(self, prefix: str) -> Sequence[str]:
        import obstore

        folder = prefix.rstrip("/")
        with self._refusing("list", prefix):
            pages = obstore.list(self._store, prefix=f"{folder}/" if folder else None)
            found = [item["path"] for page in pages for item in page]
        return sorted(name for name in found if not folder or name.startswith(f"{folder}/"))

    def delete(self, name: str) -> None:
        import obstore

        check_name(name, self._uri, temporary_allowed=True)
        try:
            with self._refusing("delete", name):
                obstore.delete(self._store, name)
        except FileNotFoundError:
            return

    def describe(self, name: str = "") -> str:
        return f"{self._uri}/{quote(name, errors='surrogatepass')}" if name else self._uri

    def _owner(self, name: str) -> str | None:
        import obstore

        try:
            return str(obstore.get(self._store, name).attributes.get(MARK, ""))
        except Exception as error:
            if not _of_the_store(error):
                raise
            return None

    def _write_error(self, name: str, error: BaseException) -> StorageError:
        return self._error("write", name, error) if _nothing_visible(error) else self._unsure(name, error)

    def _unsure(self, name: str, error: BaseException) -> UnsureWriteError:
        return UnsureWriteError(
            f"{self.describe(name)} was sent, but whether it was stored is unknown: {_cause(error)}; check "
            "the connection to the storage"
        )

    def _error(self, action: str, name: str, error: BaseException) -> StorageError:
        cause = _cause(error)
        advice = _ADVICE.get(cause[:3], "check the connection to the storage")
        return StorageError(f"cannot {action} {self.describe(name)}: {cause}; {advice}")

    @contextmanager
    def _refusing(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                raise FileNotFoundError(self.describe(name)) from None
            if not _of_the_store(error):
                raise
            raise self._error(action, name, error) from error


class _Source:
    """The parts of a file to be written, read once; remembers the error of the code that makes them."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self._parts = iter(parts)
        self.ended = False
        self.error: BaseException | None = None

    def up_to(self, size: int) -> bytes:
        taken, got = [], 0
        for part in self:
            taken.append(part)
            got += len(part)
            if got >= size:
                break
        return b"".join(taken)

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> bytes | memoryview:
        try:
            return memoryview(next(self._parts)).cast("B")
        except StopIteration:
            self.ended = True
            raise
        except BaseException as error:
            self.error = error
            raise


def _of_the_store(error: BaseException) -> bool:
    from obstore.exceptions import BaseError

    return isinstance(error, (BaseError, FileNotFoundError))


def _nothing_visible(error: BaseException) -> bool:
    """Return whether a failed write has certainly changed nothing, so that it may be repeated or given up.

    The library reports that only in its text; what is not understood counts as unknown.
    """
    text = str(error)
    if "partNumber=" in text or re.search(r"\?uploads\b", text):
        return True  # the object appears when its parts are joined, and that was not yet asked for
    if "retries: 0," not in text:
        return False  # an earlier try may have reached its end
    return "kind: Connect," in text or _CERTAIN_STATUS.search(text) is not None


def _cause(error: BaseException) -> str:
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is not None:
        return status[1].strip() + (f" ({code[1]})" if code is not None else "")
    if "kind: Connect," in text:
        return "no connection"
    if "kind: Timeout," in text:
        return "no answer in time"
    return text.partition("\n")[0]


# -- S3


def open_s3(
    uri: str, settings: StorageSettings, request_timeout: timedelta = REQUEST_TIMEOUT, retries: int = RETRIES
) -> ObjectDisk:
    """Return the disk of an S3 bucket or a prefix in it, given as ``s3://bucket/prefix``; sends no request.

    Settings that are None come from the variables ``AWS_*``; without those, keys from the machine's role.
    `request_timeout` is for one request, which is repeated `retries` times. ConfigError if `uri` names no
    bucket, or the package obstore is not installed.
    """
    parts = urlsplit(uri)
    prefix = unquote(parts.path).strip("/")
    if not parts.netloc:
        raise ConfigError(f"checkpoint storage {uri!r} names no bucket; use s3://bucket/prefix")
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ConfigError(
            f"checkpoint storage {uri!r} needs the package obstore; install it with: "
            "pip install 'headgate[s3]'"
        ) from None
    endpoint = settings.s3_endpoint or _named("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    client: ClientConfig = {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "timeout": request_timeout,
        "connect_timeout": CONNECT_TIMEOUT,
    }

    def store(count: int) -> S3Store:
        return S3Store(
            parts.netloc,
            prefix=prefix or None,
            config=_config(settings, endpoint, parts.netloc),
            client_options=client,
            retry_config={"max_retries": count, "retry_timeout": RETRY_TIMEOUT},
        )

    return ObjectDisk(store(retries), store(0), f"s3://{parts.netloc}/{parts.path.strip('/')}")


def _named(*variables: str) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)


def _config(settings: StorageSettings, endpoint: str | None, bucket: str) -> S3Config:
    found: S3Config = {}
    style = settings.s3_path_style
    in_path = endpoint is not None if style is None else style
    if style is not None or endpoint is None:
        found["virtual_hosted_style_request"] = not in_path
    if endpoint is not None:
        found["endpoint"] = endpoint if in_path else endpoint.replace("://", f"://{bucket}.", 1)
    if settings.s3_region is not None:
        found["region"] = settings.s3_region
    elif _named("AWS_REGION", "AWS_DEFAULT_REGION") is None:
        found["region"] = "us-east-1"
    if settings.s3_access_key is not None:
        found["access_key_id"] = settings.s3_access_key
    if settings.s3_secret_key is not None:
        found["secret_access_key"] = settings.s3_secret_key
    return found
