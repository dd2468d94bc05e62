"""Entries come out in the order of the new key groups, with what a log took away taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group
from headgate.serde.resolve import serializer_for
from headgate.state.stored import regroup
from headgate.state.stored.contract import TIMER_CODEC, Chunk, SectionCodec
from headgate.state.stored.regroup import Sorter
from headgate.state.targets import Target

NUMBERS = serializer_for(int)
FORM = SectionCodec(NUMBERS.decode_many, Target({"kind": "value", "of": [NUMBERS.describe()]}, NUMBERS))
GROUPS = 16


def put(keys: list[int], values: list[int]) -> Chunk:
    """Entries of state "n"."""
    return Chunk("n", FORM, False, keys, values, 0)


def held(sorter: Sorter, state: str = "n") -> list[tuple[int, int, int]]:
    """Key group, key and value of everything, in order."""
    return [
        (chunk.group, key, value)
        for subtask in range(len(sorter.ranges))
        for chunk in sorter.chunks(subtask, state)
        for key, value in zip(chunk.keys, chunk.values, strict=True)
    ]


@pytest.mark.parametrize("size", [0, 1_000], ids=["buckets-too-large", "many-buckets"])
@pytest.mark.parametrize("bucket_bytes", [1, 100, 1 << 20])
def test_the_order_does_not_depend_on_the_buckets(
    bucket_bytes: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ascending key groups, each key in its own; later values win; removed keys are gone."""
    monkeypatch.setattr(regroup, "BUCKET_BYTES", bucket_bytes)
    sorter = Sorter(tmp_path, GROUPS, 3, size)
    sorter.add(put(list(range(100)), [0] * 100))
    sorter.add(Chunk("n", None, True, list(range(50, 100)), [], 0))
    sorter.add(put([7, 60], [1, 2]))
    found = held(sorter)
    assert [group for group, _, _ in found] == sorted(group for group, _, _ in found)
    assert all(group == key_group(key, GROUPS) for group, key, _ in found)
    assert {key: value for _, key, value in found} == {**dict.fromkeys(range(50), 0), 7: 1, 60: 2}
    assert len(found) == 51


@pytest.mark.parametrize("bucket_bytes", [1, 1 << 20])
def test_timers_fire_in_the_order_of_time(
    bucket_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a key group by timestamp; one that was deleted is gone, another one of the same key is not."""
    monkeypatch.setattr(regroup, "BUCKET_BYTES", bucket_bytes)
    sorter = Sorter(tmp_path, 1, 1, 0)
    timers = "timers:event"
    sorter.add(Chunk(timers, TIMER_CODEC, False, [1, 2, 1], [30, 10, 20], 0))
    sorter.add(Chunk(timers, TIMER_CODEC, True, [1], [30], 0))
    assert held(sorter, timers) == [(0, 2, 10), (0, 1, 20)]


@pytest.mark.parametrize("bucket_bytes", [1, 1 << 20])
def test_keys_that_become_one_are_found_across_states(
    bucket_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each old key has another state: both would be mixed under the new key."""
    monkeypatch.setattr(regroup, "BUCKET_BYTES", bucket_bytes)
    sorter = Sorter(tmp_path, GROUPS, 1, 0, lambda key: key // 10)
    sorter.add(put([10], [1]))
    sorter.add(Chunk("m", FORM, False, [10], [1], 0))
    sorter.check_apart()
    sorter.add(Chunk("m", FORM, False, [11], [1], 0))
    with pytest.raises(UsageError, match="the keys 10 and 11 would both become 1"):
        sorter.check_apart()
