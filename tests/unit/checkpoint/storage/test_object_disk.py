"""Writes to an object store whose answer is an error: what is certain, what is found out, what stays open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from headgate.checkpoint.storage.objects import CREATE_ATTEMPTS, PART_BYTES, ObjectDisk
from headgate.checkpoint.storage.reachability import NotExclusiveError, probe
from headgate.checkpoint.storage.storage_contract import TellsAge, UnsureWriteError
from headgate.common.errors import DamagedFileError, StorageError

REFUSED = "Error performing PUT x - HTTP error\n retries: 0,\n kind: Connect,"
TIMED_OUT = "Error performing PUT x - HTTP error\n retries: 0,\n kind: Timeout,"
TRIED_BEFORE = "Error performing PUT x - HTTP error\n retries: 3,\n kind: Connect,"
NO_PART = "Error performing PUT http://h/b/x?partNumber=3&uploadId=1\n retries: 4,\n kind: Timeout,"
FORBIDDEN = "status code: 403 Forbidden: <Code>AccessDenied</Code>\n retries: 0,\n status: 403,"
BROKEN = "Server returned non-2xx status code: 500 Internal Server Error\n retries: 0,\n status: 500,"


class Wire:
    """Stands between the disk and the library: errors in the place of answers, before or after the deed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.disk = ObjectDisk(self.store, self.store, "s3://bucket/prefix")
        self.errors: list[tuple[str, BaseException]] = []
        self.calls = 0
        real = obstore.put

        def put(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            when, error = self.errors.pop(0) if self.errors else ("", None)
            if when == "before" and error is not None:
                raise error
            done = real(*arguments, **options)
            if error is not None:
                raise error
            return done

        monkeypatch.setattr(obstore, "put", put)

    def write(self, method: str) -> Any:
        """One write of the file `a`."""
        if method == "create":
            return self.disk.create("a", [b"mine"])
        return self.disk.create_if_absent("a", b"mine")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A wire without faults."""
    return Wire(monkeypatch)


METHODS = pytest.mark.parametrize("method", ["create", "create_if_absent"])


@METHODS
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (GenericError(REFUSED), "no connection"),
        (PermissionDeniedError(FORBIDDEN), r"403 Forbidden \(AccessDenied\)"),
    ],
)
def test_what_was_not_sent_or_was_refused_is_certain(wire: Wire, method: str, error: Any, said: str) -> None:
    """Such a failure is a plain one, with the cause in a few words."""
    wire.errors = [("before", error)]
    with pytest.raises(StorageError, match=said) as caught:
        wire.write(method)
    assert not isinstance(caught.value, UnsureWriteError)
    assert "\n" not in str(caught.value)


def test_a_part_that_was_not_taken_is_certain(wire: Wire) -> None:
    """The object appears when its parts are joined."""
    wire.errors = [("before", GenericError(NO_PART))]
    with pytest.raises(StorageError, match="cannot write s3://bucket/prefix/a") as caught:
        wire.disk.create("a", [b"x"])
    assert not isinstance(caught.value, UnsureWriteError)


@pytest.mark.parametrize("text", [TIMED_OUT, TRIED_BEFORE, BROKEN])
def test_lost_answers_stay_open(wire: Wire, text: str) -> None:
    """A refused connection after earlier tries, too: one of those may have arrived."""
    wire.errors = [("before", GenericError(text))] * CREATE_ATTEMPTS
    for method in ("create", "create_if_absent"):
        with pytest.raises(UnsureWriteError, match="whether it was stored is unknown"):
            wire.errors = [("before", GenericError(text))] * CREATE_ATTEMPTS
            wire.write(method)


@METHODS
@pytest.mark.parametrize("text", [TIMED_OUT, TRIED_BEFORE, BROKEN])
def test_a_lost_answer_of_a_write_that_came_to_be(wire: Wire, method: str, text: str) -> None:
    """The mark on the object tells that it is this writer's."""
    wire.errors = [("after", GenericError(text))]
    assert wire.write(method) in (None, True)
    assert (wire.disk.read("a"), wire.calls) == (b"mine", 1)


def test_a_lost_answer_where_another_was_first(wire: Wire) -> None:
    """The same bytes of another writer are another's."""
    wire.disk.create_if_absent("a", b"mine")
    wire.errors = [("before", GenericError(TIMED_OUT))]
    assert not wire.write("create_if_absent")


def test_creation_is_repeated(wire: Wire) -> None:
    """Where nothing is there after a lost answer, it is tried again, and then it is this writer's."""
    wire.errors = [("before", GenericError(TIMED_OUT)), ("before", AlreadyExistsError("409 conflict"))]
    assert wire.write("create_if_absent")
    assert wire.calls == 3


def test_how_old_a_file_is(wire: Wire) -> None:
    """By the clock of the store; where there is no file it says so."""
    assert isinstance(wire.disk, TellsAge)
    before_ms = int(time.time() * 1000)
    wire.disk.create("a", [b"x"])
    assert before_ms <= wire.disk.modified_ms("a") <= time.time() * 1000
    with pytest.raises(FileNotFoundError):
        wire.disk.modified_ms("b")


def test_a_service_that_ignores_the_condition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before a job says in one sentence what is missing, and leaves nothing behind."""
    real: Callable[..., Any] = obstore.put

    def careless(*arguments: Any, mode: str | None = None, **options: Any) -> Any:
        return real(*arguments, **options)

    monkeypatch.setattr(obstore, "put", careless)
    store = MemoryStore()
    disk = ObjectDisk(store, store, "s3://bucket/prefix")
    with pytest.raises(NotExclusiveError, match=r"ignores If-None-Match.*docs/storage\.md"):
        probe(disk)
    assert disk.list("") == []


@pytest.mark.parametrize("before", [0, PART_BYTES], ids=["in the first part", "in a later part"])
def test_an_error_of_the_code_that_makes_the_parts_comes_out_as_it_is(wire: Wire, before: int) -> None:
    """It is not its own cause: whoever follows the causes of an error comes to an end."""

    def parts() -> Iterator[bytes]:
        yield bytes(before)
        raise DamagedFileError("the file that is copied is damaged")

    with pytest.raises(DamagedFileError, match="that is copied") as caught:
        wire.disk.create("a", parts())
    assert caught.value.__cause__ is None
    assert wire.disk.list("") == []
