"""Records whose type no stream declares, from one worker to another that never imported their class."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.frames import FrameKind

SENDING = """
import sys
from dataclasses import dataclass
from enum import Enum
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.job.shipped_program import received, shipped
from headgate.runtime.protocol.undeclared_rows import UndeclaredRows

{classes}

def worker(program):
    rows = UndeclaredRows(SAME_INTERPRETER, program)
    sys.stdout.buffer.write(b"".join(rows.encode(make())))

if __name__ == "__main__":
    import subprocess
    program = shipped((worker, show, make))
    run = "import sys; from headgate.runtime.job.shipped_program import received; p = sys.stdin.buffer.read()"
    run += "; received(p)[0](p)"
    frame = subprocess.run([sys.executable, "-c", run], input=program, capture_output=True, check=True).stdout
    run = "import sys; from headgate.runtime.job.shipped_program import received;"
    run += "from headgate.runtime.protocol.undeclared_rows import UndeclaredRows;"
    run += "from headgate.common.process.same_interpreter import SAME_INTERPRETER;"
    run += "p = open(sys.argv[1], 'rb').read(); show = received(p)[1];"
    run += "rows = UndeclaredRows(SAME_INTERPRETER, p).decode(memoryview(sys.stdin.buffer.read()), 2);"
    run += "print(show(rows))"
    open("program", "wb").write(program)
    done = subprocess.run([sys.executable, "-c", run, "program"], input=frame, capture_output=True)
    sys.stderr.write(done.stderr.decode())
    print(frame[0], done.stdout.decode().strip())
    print(frame[0], show(make()))
"""

SCRIPTS = {
    "scalars by field": """
        @dataclass(frozen=True, slots=True)
        class Commit:
            author: str
            files: int
        def make():
            return [Commit("a", 1), Commit("b", 2)]
        def show(rows):
            return rows, {type(row) is Commit for row in rows}
    """,
    "by field": """
        @dataclass
        class Commit:
            author: str
            files: list[str]
        def make():
            return [Commit("a", []), Commit("b", ["x"])]
        def show(rows):
            return rows, {type(row) is Commit for row in rows}
    """,
    "pickled": """
        class Kind(Enum):
            FIX = 1
            MEND = 1
        class Commit:
            def __init__(self, author, kind):
                self.author, self.kind = author, kind
        def make():
            return [Commit("a", Kind.FIX), (Commit("b", Kind.MEND), Kind.FIX)]
        def show(rows):
            first, (second, kind) = rows
            return type(first) is Commit, second.author, second.kind is Kind["MEND"], kind
    """,
}


@pytest.mark.parametrize("form", SCRIPTS)
def test_a_worker_reads_what_another_has_sent(form: str, tmp_path: Path) -> None:
    """Both got the class with the program, by value; the form of the frame is the one that is meant."""
    script = tmp_path / "script.py"
    script.write_text(SENDING.replace("{classes}", textwrap.dedent(SCRIPTS[form])))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    there, here = done.stdout.strip().split("\n")
    assert there == here, done.stderr
    assert there.startswith({"by field": "1 ", "scalars by field": "2 ", "pickled": "0 "}[form])


class Opaque:
    """No serializer knows it."""


@dataclass
class Wrong:
    """One field holds something else than it says."""

    number: int


def test_pickled_types_are_reported_once_with_their_cost(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends a million of them is told once, for each type."""
    codec = ElementCodec()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert codec.encode(RowBatch([Opaque()]))[0] is FrameKind.PICKLED_ROWS
            codec.encode(RowBatch([Wrong(["text"])]))  # type: ignore[arg-type]
    assert [f"{__name__}.Opaque" in text for text in caplog.messages] == [True, False]
    assert all("about twice as long" in text for text in caplog.messages)


def test_a_declared_tuple_of_records_travels_by_field(caplog: pytest.LogCaptureFixture) -> None:
    """So does a union: no class at the top is no reason to pickle."""
    for hint, row in [(tuple[str, Wrong], ("a", Wrong(1))), (Wrong | str, Wrong(2))]:
        codec = ElementCodec(hint)
        kind, parts = codec.encode(RowBatch([row]))
        assert kind is FrameKind.ROWS
        back = codec.decode(kind, memoryview(b"".join(parts)))
        assert isinstance(back, RowBatch)
        assert back.records == [row]
    assert caplog.messages == []
