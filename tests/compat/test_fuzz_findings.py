"""What fuzzing found: bytes that ended as a riddle and not as the reader's own error; and some fuzzing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headgate.common.errors import StorageError, UsageError
from headgate.serde.arrow.stored_values import open_batch
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.state.canonical.key_columns import KeyColumns
from headgate.state.canonical.table_layout import ELEMENT
from headgate.state.canonical.value_columns import values_of
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.rocksdb.key_bytes import key_of
from headgate.state.stored.blob_format import split_chunk
from proof import fuzz, fuzz_files
from proof.fuzz_child import Fuzzing, Ledger
from proof.fuzz_mutate import mutations
from proof.fuzz_target import Target, attempt

DEEP = b"\x91" * 5_000
"""A list in a list in a list: more than anything recurses."""
TAGGED, TYPED = b"\x01", b"\x00"
ZONED = 7
"""The extension type of moments."""


def moment(zone: Any) -> bytes:
    """A moment of the dynamic codec in a zone of any kind."""
    data = msgspec.msgpack.encode((0, 0, zone))
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(ZONED, data))


def rocks_key(encoded: bytes) -> bytes:
    """As RocksDB holds a key."""
    return struct.pack(">HI", 0, len(encoded)) + encoded


FOUND: dict[str, Callable[[], Any]] = {
    "a batch is nested too deeply": lambda: DynamicSerializer().decode_many(TYPED + DEEP, 1),
    "a typed batch is nested too deeply": lambda: serializer_for(list[Any]).decode_many(TYPED + DEEP, 1),
    "a tagged batch is nested too deeply": lambda: serializer_for(int).decode_many(TAGGED + DEEP, 1),
    "a batch to be taken apart is nested too deeply": lambda: open_batch(
        serializer_for(int).describe(), TYPED + DEEP, 1
    ),
    "a state has the name of its changes": lambda: fuzz_files._read_blob(
        fuzz_files.state_blob().replace(b"\xa4most", b"\xa4-ost")
    ),
    "a tagged batch is a number": lambda: serializer_for(int).decode_many(TAGGED + b"\xc0", 1),
    "a tagged batch is text as long as the batch": lambda: serializer_for(str).decode_many(
        TAGGED + b"\xa1a", 1
    ),
    "a zone that is not known": lambda: DynamicSerializer().decode_many(
        TYPED + b"\x91" + moment("No/Zone"), 1
    ),
    "a zone that is a folder": lambda: DynamicSerializer().decode_many(TYPED + b"\x91" + moment("Europe"), 1),
    "a zone with a name too long for a file": lambda: DynamicSerializer().decode_many(
        TYPED + b"\x91" + moment("a" * 5_000), 1
    ),
    "a zone that is a map": lambda: key_of(rocks_key(moment({}))),
    "a zone that is an empty list": lambda: key_of(rocks_key(moment([]))),
    "a chunk without a length": lambda: split_chunk(memoryview(b"\0\0\0")),
    "a description without a kind": lambda: judge({"version": 1}, serializer_for(int)),
    "a description that lacks a part": lambda: reader_for(
        {"kind": "dict", "version": 1, "key": {"kind": "str", "version": 1}}, serializer_for(dict[str, int])
    ),
    "metadata with text that is no UTF-8": lambda: fuzz_files._read_metadata(
        fuzz_files._metadata()[0].replace(b"\xa3job", b"\xa3j\xffb", 1)
    ),
    "a log entry with text that is no UTF-8": lambda: fuzz_files._read_entry(
        fuzz_files._entries()[1].replace(b"\xaacheckpoint", b"\xaacheckp\xffint", 1)
    ),
    "a blob's header with text that is no UTF-8": lambda: fuzz_files._read_blob(
        fuzz_files.state_blob().replace(b"\xa5total", b"\xa5t\xfftal", 1)
    ),
    "a key of a blob is a list": lambda: fuzz_files._read_blob(
        fuzz_files.with_checksums(fuzz_files.state_blob().replace(b"\xa4text", b"\x94\x01\x02\x03\x04", 1))
    ),
    "a key of a table is a list": lambda: KeyColumns(None).keys(
        {"key_raw": KeyColumns(None).arrays([[1]])[0]}  # type: ignore[list-item]
    ),
    "a list in a table does not begin at its first place": lambda: values_of(
        ELEMENT, {"kind": "list", "of": [serializer_for(int).describe()]}
    ).starts({"position": pa.array([1, 0, 1])}),
    "a history that is nested too deeply": lambda: fuzz_files.decode_history(
        b'{"format_version":1,"job":"a","job_name":"b","records":' + b"[" * 5_000, "file"
    ),
    "operator state whose description has no parts": lambda: OperatorStateBackend(
        {"points": fuzz_files._POINTS}
    ).restore(
        [(msgspec.structs.replace(fuzz_files._HANDLES[0], schema={}), fuzz_files._operator_blobs()[0][2:])]
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_by_fuzzing(name: str) -> None:
    """Each is refused as stored bytes that are not right."""
    with pytest.raises(StorageError):
        FOUND[name]()


def test_a_negative_count_is_refused() -> None:
    """No chunk of a header holds less than nothing, whatever its checksum."""
    blob = fuzz_files.state_blob()
    head = struct.Struct("<8sIQI")
    length = head.unpack_from(blob)[2]
    raw = msgspec.msgpack.decode(blob[head.size : head.size + length])
    raw["sections"][0]["chunks"][0][3] = -1
    header = msgspec.msgpack.encode(raw)
    damaged = head.pack(b"HGKEYED\n", 1, len(header), 0) + header + blob[head.size + length :]
    with pytest.raises(StorageError, match="does not decode"):
        fuzz_files._read_blob(damaged)


# -- the fuzzing itself


@pytest.mark.parametrize("target", fuzz.targets(), ids=lambda target: target.name)
def test_a_moment_of_fuzzing(target: Target) -> None:
    """Every seed is accepted, and some damaged forms of them end as declared."""
    seeds = target.seeds()
    assert [attempt(target, data) for data in seeds] == [(True, None)] * len(seeds)
    ended = [attempt(target, data) for data in islice(mutations(seeds, 1), 150)]
    assert [wrong for _, wrong in ended if wrong] == []
    assert (False, None) in ended


def test_mutations_are_repeatable() -> None:
    """The same seed, the same damage."""
    first, again, other = (list(islice(mutations([b"abc", b"xyz"], seed), 50)) for seed in (1, 1, 2))
    assert first == again != other


def raising(error: Exception) -> Target:
    """A target that is broken in one way."""

    def read(data: bytes) -> None:
        if data:
            raise error

    return Target("broken", (StorageError,), lambda: [b""], read)


@pytest.mark.parametrize(
    ("error", "wrong"),
    [(StorageError("refused"), None), (UsageError("x"), "UsageError at"), (KeyError("k"), "KeyError at")],
)
def test_what_is_not_declared_is_a_finding(error: Exception, wrong: str | None) -> None:
    """Only the declared error is none."""
    accepted, found = attempt(raising(error), b"x")
    assert not accepted
    assert (found is None) == (wrong is None)
    assert found is None or found.startswith(wrong or "")


def test_a_refusal_made_of_a_failed_allocation_is_a_finding() -> None:
    """With more memory the allocation would have been made."""

    def read(data: bytes) -> None:
        try:
            raise MemoryError
        except MemoryError:
            raise StorageError("refused") from None

    _, found = attempt(Target("greedy", (StorageError,), lambda: [b""], read), b"x")
    assert found is not None
    assert found.startswith("asks for too much memory")


def test_findings_are_kept_with_their_input(tmp_path: Path) -> None:
    """Each kind once, with counts that another process reads."""
    ledger = Ledger(tmp_path / "ledger", create=True)
    fuzzing = Fuzzing(raising(KeyError("k")), tmp_path)
    for data in (b"", b"one", b"two"):
        fuzzing.one(data)
    assert ledger.counts() == (3, 1, 3)
    assert ledger.data() == b"two"
    (kept,) = tmp_path.glob("finding-*.json")
    assert bytes.fromhex(msgspec.json.decode(kept.read_bytes())["input"]) == b"one"


@pytest.mark.ci
def test_a_process_that_dies_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way with a real process: here one that cannot even begin."""
    monkeypatch.setattr(fuzz, "START_S", 30.0)
    (result,) = fuzz.Campaign([fuzz.Process("chance", [0], 0.2)], 1, tmp_path).run()
    assert result.executions > 0
    assert result.findings == []
    (broken,) = fuzz.Campaign([fuzz.Process("no such engine", [0], 0.2)], 1, tmp_path).run()
    assert "code 2" in broken.findings[-1]["wrong"]
    assert fuzz.summary([result, broken], 1, 2.0)["findings"] == len(broken.findings)
