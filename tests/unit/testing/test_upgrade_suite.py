"""The upgrade suite over each verdict, stored values in files, and what it has to find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.testing.suites import SerializerUpgradeSuite, StoredValues, Verdict
from headgate.testing.suites.backend.formats import VersionedSerializer

VALUES = [("foo", 1456), ("bar", 478), ("hello", 189)]
FIRST = Path(__file__).parent / "data" / "versioned-1.json"


class Upgrade(SerializerUpgradeSuite):
    """From the first version, whose values are in a file; RocksDB is for the long tier."""

    new: VersionedSerializer
    expected: Verdict

    def stored(self) -> StoredValues:
        return StoredValues.from_file(FIRST)

    def serializer(self) -> hg.TypeSerializer[Any]:
        return self.new

    def verdict(self) -> Verdict:
        return self.expected

    def values(self) -> Sequence[Any]:
        return VALUES

    @pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.ci)])
    def test_ss7_a_restored_job_goes_on_or_does_not_start(self, backend: str, tmp_path: Path) -> None:
        """sS7: see the suite."""
        super().test_ss7_a_restored_job_goes_on_or_does_not_start(backend, tmp_path)


class TestAsIs(Upgrade):
    """sS7: the format is the same."""

    new, expected = VersionedSerializer(1), Verdict.AS_IS


class TestAfterMigration(Upgrade):
    """The old one reads, the new one writes."""

    new, expected = VersionedSerializer(2, migrates=(1,)), Verdict.AFTER_MIGRATION


class TestReconfigured(Upgrade):
    """Another one takes the new one's place."""

    new, expected = VersionedSerializer(4, reconfigures=(1,)), Verdict.RECONFIGURED


class TestIncompatible(Upgrade):
    """Nothing is read."""

    new, expected = VersionedSerializer(6), Verdict.INCOMPATIBLE


class TestBuiltIn(Upgrade):
    """Annotated types are judged by the rules of changed types."""

    expected = Verdict.AFTER_MIGRATION

    def stored(self) -> StoredValues:
        return StoredValues.written_by(hg.serializer_for(list[int]), [[1], [2, 3]])

    def serializer(self) -> hg.TypeSerializer[Any]:
        return hg.serializer_for(list[float])

    def values(self) -> Sequence[Any]:
        return [[1.0], [2.0, 3.0]]


def suite(version: VersionedSerializer, verdict: Verdict, values: Sequence[Any] = VALUES) -> Upgrade:
    """A suite that is called by hand."""
    made = Upgrade()
    made.new, made.expected = version, verdict
    made.values = lambda: values  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("expected", list(Verdict))
def test_another_verdict_is_found(expected: Verdict) -> None:
    """Whichever it is."""
    found = suite(VersionedSerializer(2, migrates=(1,)), expected)
    if expected is Verdict.AFTER_MIGRATION:
        found.test_the_verdict_is_the_expected_one()
        return
    with pytest.raises(AssertionError, match=r"AfterMigration.*the order changed"):
        found.test_the_verdict_is_the_expected_one()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([*VALUES[:2], ("hello", 190)], r"value 2 came back as \('hello', 189\).*expected \('hello', 190\)"),
        (VALUES[:2], r"values\(\) gave 2, and 3 are stored"),
    ],
    ids=["another value", "too few"],
)
def test_other_values_are_found(values: Sequence[Any], why: str, tmp_path: Path) -> None:
    """In the serializer and in the backend."""
    found = suite(VersionedSerializer(1), Verdict.AS_IS, values)
    with pytest.raises(AssertionError, match=why):
        found.test_stored_values_are_read_or_refused()
    with pytest.raises(AssertionError, match=why):
        found.test_ss7_a_restored_job_goes_on_or_does_not_start("hashmap", tmp_path)


def test_values_that_are_read_although_they_should_not_are_found(tmp_path: Path) -> None:
    """In the serializer and in the backend."""
    found = suite(VersionedSerializer(1), Verdict.INCOMPATIBLE)
    with pytest.raises(pytest.fail.Exception):
        found.test_stored_values_are_read_or_refused()
    with pytest.raises(pytest.fail.Exception):
        found.test_ss7_a_restored_job_goes_on_or_does_not_start("hashmap", tmp_path)


def test_a_file_of_stored_values_is_made_once(tmp_path: Path) -> None:
    """What an old version stored cannot be made again when that version is gone."""
    path = tmp_path / "values.json"
    stored = StoredValues.written_by(VersionedSerializer(1), VALUES)
    stored.write(path)
    assert StoredValues.from_file(path) == stored
    with pytest.raises(UsageError, match="is there already; keep it"):
        stored.write(path)
    with pytest.raises(UsageError, match="no values are given"):
        StoredValues.written_by(VersionedSerializer(1), [])


def test_the_first_version_still_writes_what_is_in_the_file() -> None:
    """Byte for byte: its format did not change since."""
    assert StoredValues.written_by(VersionedSerializer(1), VALUES) == StoredValues.from_file(FIRST)


@pytest.mark.parametrize("change", ["missing", "cut", "flipped", "other form"])
def test_damaged_files_are_refused(tmp_path: Path, change: str) -> None:
    """A test must not pass by reading something else."""
    path, text = tmp_path / "values.json", FIRST.read_text()
    changed = {
        "cut": text[:-20],
        "flipped": text.replace('"batch": "A', '"batch": "B'),
        "other form": text.replace('"form": 1', '"form": 2'),
    }
    if change != "missing":
        path.write_text(changed[change])
        assert changed[change] != text
    with pytest.raises(StorageError, match=r"values\.json"):
        StoredValues.from_file(path)
