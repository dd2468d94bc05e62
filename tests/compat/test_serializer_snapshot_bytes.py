"""Serializers' snapshots of earlier versions are read, and written byte for byte as they were.

The files are never rewritten, only added to: ``python tests/compat/test_serializer_snapshot_bytes.py``
writes those that are missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes

DATA = Path(__file__).parent / "data" / "serializer-snapshots"


class Text(hg.TypeSerializer[str]):
    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> Any:
        return TextSnapshot()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class Tagged(hg.TypeSerializer[Any]):
    """Has an outer configuration."""

    def __init__(self, tag: str, nested: Sequence[hg.TypeSerializer[Any]]) -> None:
        self.tag, self.nested = tag, nested

    def encode(self, value: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError

    def snapshot(self) -> Any:
        return TaggedSnapshot(self)


class TaggedSnapshot(hg.CompositeTypeSerializerSnapshot[Any, Tagged]):
    def __init__(self, outer_serializer: Tagged | None = None) -> None:
        super().__init__(outer_serializer)
        self.tag = "" if outer_serializer is None else outer_serializer.tag

    def current_outer_snapshot_version(self) -> int:
        return 4

    def nested_serializers(self, outer_serializer: Tagged) -> Sequence[hg.TypeSerializer[Any]]:
        return outer_serializer.nested

    def create_outer_serializer(self, nested: Sequence[hg.TypeSerializer[Any]]) -> Tagged:
        return Tagged(self.tag, nested)

    def write_outer_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_utf(self.tag)

    def read_outer_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.tag = in_.read_utf()

    def resolve_outer_schema_compatibility(self, old_snapshot: Any) -> hg.OuterSchemaCompatibility:
        return hg.OuterSchemaCompatibility.COMPATIBLE_AS_IS


class EverythingSnapshot(hg.TypeSerializerSnapshot[Any]):
    """Writes each kind of part once."""

    PARTS = (
        ("boolean", True),
        ("int", -2),
        ("long", 2**40),
        ("double", 0.5),
        ("utf", "æ🚪\0"),
        ("bytes", b"\x00\xff"),
    )

    def current_version(self) -> int:
        return 9

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        for kind, value in self.PARTS:
            getattr(out, f"write_{kind}")(value)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        assert read_version == 9
        assert [getattr(in_, f"read_{kind}")() for kind, _ in self.PARTS] == [part for _, part in self.PARTS]

    def restore_serializer(self) -> Any:
        raise NotImplementedError


SNAPSHOTS: dict[str, Any] = {
    "simple": TextSnapshot(),
    "described": hg.serializer_for(dict[str, list[int | None]]).snapshot(),
    "list": ListSerializer(Text()).snapshot(),
    "map": MapSerializer(hg.serializer_for(str), ListSerializer(Text())).snapshot(),
    "composite": Tagged("kg", [Text(), hg.serializer_for(float)]).snapshot(),
    "every-part": EverythingSnapshot(),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_g23_the_stored_form_does_not_change(name: str) -> None:
    """What is written is what was written; and what was written is read as what it was."""
    stored = (DATA / f"{name}.bin").read_bytes()
    assert snapshot_to_bytes(SNAPSHOTS[name]) == stored
    found = snapshot_from_bytes(stored)
    assert type(found) is type(SNAPSHOTS[name])
    assert snapshot_to_bytes(found) == stored


def test_each_file_has_its_snapshot() -> None:
    """No stored form is forgotten."""
    assert {file.stem for file in DATA.iterdir()} == set(SNAPSHOTS)


if __name__ == "__main__":
    module = sys.modules["__main__"]
    sys.modules["test_serializer_snapshot_bytes"] = module
    for name, snapshot in SNAPSHOTS.items():
        if not (DATA / f"{name}.bin").exists():
            (DATA / f"{name}.bin").write_bytes(snapshot_to_bytes(snapshot))
