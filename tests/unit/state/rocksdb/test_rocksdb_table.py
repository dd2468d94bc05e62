"""A table of RocksDB behind its cache: a dict to whoever uses it, and few reads and writes below."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.common.process.system import SystemClock
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.state.backends import RocksBackends
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.database import ColumnStore, Database
from headgate.state.rocksdb.key_bytes import storage_key, storage_keys
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.rocksdb.state_table import PROBED_EVERY, ReadAhead

GROUPS = 16
MEMORY = RocksMemory(LIMIT_MIN)


class Counts:
    count: hg.ValueState[int] = hg.value_state(default=0)
    names: hg.ListState[str] = hg.list_state()


class Reads:
    """What is asked of the column families: single keys, and keys that were asked for together."""

    def __init__(self) -> None:
        self.single: list[bytes] = []
        self.together: list[list[bytes]] = []
        self.written: list[list[bytes]] = []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Notes every access of the real store."""
    noted, get, get_many, write = Reads(), ColumnStore.get, ColumnStore.get_many, ColumnStore.write

    def noting_get(store: ColumnStore, key: bytes) -> bytes | None:
        noted.single.append(key)
        return get(store, key)

    def noting_get_many(store: ColumnStore, keys: Sequence[bytes]) -> list[bytes | None]:
        noted.together.append(list(keys))
        return get_many(store, keys)

    def noting_write(store: ColumnStore, entries: Any) -> None:
        whole = list(entries)
        noted.written.append([key for key, _ in whole])
        write(store, whole)

    monkeypatch.setattr(ColumnStore, "get", noting_get)
    monkeypatch.setattr(ColumnStore, "get_many", noting_get_many)
    monkeypatch.setattr(ColumnStore, "write", noting_write)
    return noted


def backend(folder: Path, cache: int) -> RocksKeyedBackend:
    """An empty one."""
    states = declared_state(Counts())
    return RocksKeyedBackend(
        states, 0, GROUPS - 1, GROUPS, directory=folder, memory=MEMORY, cache_entries=cache
    )


numbers = st.integers(0, 11)
actions = st.one_of(
    st.tuples(st.just("set"), numbers),
    st.tuples(st.just("pop"), numbers),
    st.tuples(st.just("get"), numbers),
    st.tuples(st.just("prefetch"), st.lists(numbers, max_size=8)),
    st.tuples(st.just("flush"), st.none()),
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(actions, max_size=25), st.sampled_from([2, 6, 14, 100]))
def test_it_is_a_dict_whatever_is_read_ahead_and_thrown_out(script: list[Any], cache: int) -> None:
    """Reading ahead and the bytes that are kept of keys never show."""
    with tempfile.TemporaryDirectory() as folder:
        made = backend(Path(folder) / "one", cache)
        table: Any = made._tables["count"]
        model: dict[int, int] = {}
        for step, (action, what) in enumerate(script):
            if action == "set":
                table[what] = model[what] = step
            elif action == "pop":
                table.pop(what)
                model.pop(what, None)
            elif action == "get":
                assert table.get(what, -1) == model.get(what, -1)
            elif action == "prefetch":
                table.prefetch(what, certain=True)
            else:
                table.flush()
        assert {key: table.get(key, -1) for key in range(12)} == {
            key: model.get(key, -1) for key in range(12)
        }
        assert dict(table.scan()) == model
        made.close()


def test_keys_that_leave_the_cache_are_read_again_with_the_others(tmp_path: Path, reads: Reads) -> None:
    """Making room for a batch throws the older generation out, with keys that the batch needs."""
    made = backend(tmp_path / "one", cache=20)
    table: Any = made._tables["count"]
    for start in (0, 10, 20):
        for key in range(start, start + 10):
            table[key] = key
    reads.single.clear()
    table.prefetch([*range(10, 15), *range(30, 35)], certain=True)
    assert [table.get(key) for key in [*range(10, 15), *range(30, 35)]] == [*range(10, 15), *[None] * 5]
    assert reads.single == []
    made.close()


def test_many_keys_are_read_and_written_in_the_order_of_their_bytes(tmp_path: Path, reads: Reads) -> None:
    """RocksDB finds neighbours sooner."""
    made = backend(tmp_path / "one", cache=100)
    table: Any = made._tables["count"]
    table.prefetch(range(40), certain=True)
    for key in range(40):
        table[key] = key
    table.flush()
    wanted = sorted(storage_key(key, GROUPS) for key in range(40))
    assert reads.together == [wanted]
    assert reads.written == [wanted]
    made.close()


def test_a_state_that_nothing_touches_is_not_read_ahead(tmp_path: Path, reads: Reads) -> None:
    """One batch in so many shows by its own reads whether a list is in use."""
    made = backend(tmp_path / "one", cache=20)
    names: Any = made.handles["names"]
    for touched in (False, True, False):
        for batch in range(3 * PROBED_EVERY):
            keys = range(batch * 10, batch * 10 + 10)
            reads.together.clear()
            made.prefetch(keys)
            if batch > PROBED_EVERY and batch % PROBED_EVERY:
                # The value is loaded for every record in any case.
                assert len(reads.together) == (2 if touched else 1)
            for key in keys:
                if touched:
                    names.bind(key)
                    names.get()
    made.close()


def test_the_next_batches_follow_what_a_probe_showed() -> None:
    """Half of the keys or more must have been read."""
    for keys_read, follows in [(0, False), (4, False), (5, True), (10, True)]:
        ahead = ReadAhead()
        assert not ahead.wanted(10)
        ahead.reads += keys_read
        assert [ahead.wanted(10) for _ in range(PROBED_EVERY - 1)] == [follows] * (PROBED_EVERY - 1)
        assert not ahead.wanted(10)


class Touch(hg.KeyedProcessFunction[int, int, int]):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: Any) -> Any:
        self.count.value += 1
        ctx.timers.register_event_time(10**9)
        yield self.count.value


class Outputs:
    """Follows the operator."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def process(self, batch: Any) -> None:
        self.records += batch.rows()

    def watermark(self, timestamp: int) -> None:
        """Nothing follows from it."""


def timed(keys: list[int]) -> RowBatch:
    """Records with event time and a watermark that moves between them."""
    times = np.arange(len(keys), dtype=np.int64)
    return RowBatch(keys, times, times - 1)


@pytest.mark.parametrize("batch", [RowBatch, timed], ids=["no times", "timed"])
def test_an_operator_reads_the_keys_of_a_batch_with_one_call(
    tmp_path: Path, reads: Reads, batch: Callable[[list[int]], RowBatch]
) -> None:
    """And none of them by itself, however often it comes."""
    where = OperatorContext(
        "op", "op", 0, 1, 1, "job", GROUPS, SystemClock(), backends=RocksBackends(LIMIT_MIN, str(tmp_path))
    )
    operator = KeyedProcessOperator(where, Touch(), lambda record: record)
    operator.next = out = Outputs()  # type: ignore[assignment]
    operator.open()
    operator.process(batch([3, 1, 3, 2, 1, 3]))
    operator.process(batch([1, 4, 4]))
    assert [len(keys) for keys in reads.together] == [3, 1]
    assert reads.single == []
    assert out.records == [1, 1, 2, 1, 2, 3, 3, 1, 2]
    operator.close()


@pytest.mark.ci
def test_a_filter_that_is_larger_than_a_shard_of_the_cache_is_not_read_as_a_whole(tmp_path: Path) -> None:
    """Looks for keys that are not there cost a few kilobytes each, however many keys one file has."""
    database = Database(tmp_path / "db", ["count"], RocksMemory(LIMIT_MIN))
    store = database.stores["count"]
    for start in range(0, 600_000, 20_000):
        keys = storage_keys(range(start, start + 20_000), GROUPS)
        store.write((key, b"\0\0\x91\1") for key in sorted(keys))
    store.flush()
    store._store.compact_range(None, None)  # as it comes to be; filters of new files are pinned
    absent = storage_keys(range(10**6, 10**6 + 2_000), GROUPS)
    before = bytes_read()
    assert {store.get(key) for key in absent} == {None}
    assert bytes_read() - before < len(absent) * (64 << 10)
    database.close()


def bytes_read() -> int:
    """What this process has read from files, whether they were in memory or not."""
    return int(Path("/proc/self/io").read_text().split()[1])
