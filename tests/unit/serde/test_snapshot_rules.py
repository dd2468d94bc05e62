"""What a serializer of the user's must be before anything is stored with it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.runtime.job.shipped_program import Program, WorkerSettings
from headgate.serde.composites import ListSerializer
from headgate.serde.logical_names import class_named, logical_name, note_logical_name
from headgate.serde.snapshots.snapshot_rules import SerializerRegistry

WHERE = "state 'total' (job.py:12)"


class Text(hg.TypeSerializer[str]):
    """A good one, whose snapshot a test may choose."""

    def __init__(self, snapshot: Any = None) -> None:
        self.made = snapshot

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> Any:
        return TextSnapshot() if self.made is None else self.made()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class OtherText(Text):
    """Another class with the same snapshot class."""


class Outside:
    class NestedSnapshot(TextSnapshot):
        """No name at the top of the module leads to it."""


class NeedySnapshot(TextSnapshot):
    def __init__(self, needed: int) -> None:
        super().__init__()


class PicklingSnapshot(TextSnapshot):
    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_bytes(pickle.dumps(Text))


class ForgetfulSnapshot(TextSnapshot):
    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_int(1)


class EncodeOnly(hg.TypeSerializer[str]):
    def encode(self, value: str) -> bytes:
        return value.encode()

    def snapshot(self) -> Any:
        return TextSnapshot()


class ManyOnly(Text):
    def encode_many(self, values: Any) -> bytes:
        return b""


class Neither(hg.TypeSerializer[str]):
    def snapshot(self) -> Any:
        return TextSnapshot()


def anonymous() -> Any:
    """A snapshot of a class that no name leads to."""
    return type("TextSnapshot", (TextSnapshot,), {"__module__": __name__})()


def unimportable() -> Any:
    """A snapshot of a class whose module no file holds."""
    return type("MadeSnapshot", (TextSnapshot,), {"__module__": "made_by_hand"})()


def local() -> Any:
    """A snapshot of a class inside a function."""

    class LocalSnapshot(TextSnapshot):
        pass

    return LocalSnapshot()


def failing() -> Any:
    """No snapshot."""
    raise ValueError("not yet")


@pytest.mark.parametrize(
    ("serializer", "why"),
    [
        (Text(local), "g19: LocalSnapshot is local or nested"),
        (Text(Outside.NestedSnapshot), "g19: Outside.NestedSnapshot is local or nested"),
        (Text(anonymous), "g19: TextSnapshot is not what its module calls TextSnapshot"),
        (Text(unimportable), "g19: MadeSnapshot is of module made_by_hand, which cannot be imported"),
        (Text(lambda: NeedySnapshot(1)), "g19: NeedySnapshot cannot be made without arguments"),
        (Text(PicklingSnapshot), "g21: PicklingSnapshot writes a pickled object"),
        (Text(ForgetfulSnapshot), "ForgetfulSnapshot left 4 bytes of version 3 of its layout unread"),
        (Text(lambda: "text"), r"Text.snapshot\(\) gave 'text'; expected an hg.TypeSerializerSnapshot"),
        (Text(failing), r"Text.snapshot\(\) raised ValueError: not yet"),
        (EncodeOnly(), r"EncodeOnly has no decode\(\); it needs both encode\(\) and decode\(\)"),
        (ManyOnly(), r"ManyOnly has no decode_many\(\)"),
        (Neither(), "Neither neither has encode"),
        (ListSerializer(Text(local)), "g19: LocalSnapshot is local or nested"),
        (Text, r"got the class Text; pass an instance of a TypeSerializer: Text\(\)"),
        (str.encode, "expected an hg.TypeSerializer"),
    ],
)
def test_g19_g21_what_could_not_be_read_later_is_refused(serializer: Any, why: str) -> None:
    """Classes that cannot be found or made again, pickle, and what is no serializer; the place is named."""
    with pytest.raises(UsageError, match=why.removeprefix("g19: ").removeprefix("g21: ")) as caught:
        SerializerRegistry().register(serializer, WHERE)
    assert str(caught.value).startswith(WHERE)


def test_g20_one_snapshot_class_is_not_for_two_serializers() -> None:
    """Within one program; the same serializer class may be declared often, built-in ones too."""
    registry = SerializerRegistry()
    for _ in range(2):
        registry.register(Text(), WHERE)
        registry.register(ListSerializer(Text()), WHERE)
        registry.register(hg.serializer_for(int), WHERE)
        registry.register(hg.serializer_for(Any), WHERE)
    with pytest.raises(UsageError, match="TextSnapshot is the snapshot class of Text and of OtherText"):
        registry.register(OtherText(), "state 'other' (job.py:13)")


SCRIPT = """
import sys
import headgate as hg
from headgate.serde.snapshots.snapshot_rules import SerializerRegistry
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes

class Text(hg.TypeSerializer[str]):
    def encode(self, value):
        return value.encode()
    def decode(self, data):
        return data.decode()
    def snapshot(self):
        return TextSnapshot()

class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self):
        super().__init__(Text)

SerializerRegistry().register(Text(), "here")
stored = snapshot_to_bytes(TextSnapshot())
assert b"my_job.TextSnapshot" in stored, stored
assert type(snapshot_from_bytes(stored)) is TextSnapshot
assert "my_job" not in sys.modules
"""


def test_g19_classes_of_a_script_are_found_under_its_name(tmp_path: Path) -> None:
    """A script's class is called by its file, and found again without running the script once more."""
    script = tmp_path / "my_job.py"
    script.write_text(SCRIPT)
    source = Path(hg.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={"PYTHONPATH": str(source), "PATH": ""}
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_class_of_a_script_keeps_its_name_where_it_is_shipped_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """There another script runs, or none; what is shipped are the classes of the program."""
    script = types.ModuleType("__main__")
    script.__file__ = "jobs/my_job.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    cls, other = (type("Text", (), {"__module__": module}) for module in ("__main__", __name__))
    plan: Any = cls
    Program("job", plan, WorkerSettings(), {}).to_bytes()
    note_logical_name(other)
    script.__file__ = "worker.py"
    assert logical_name(cls) == "my_job.Text"
    assert logical_name(other) == f"{__name__}.Text"
    assert "__headgate_logical_name__" not in vars(other)
    vars(script)["Text"] = cls
    assert class_named("worker.Text") is cls
