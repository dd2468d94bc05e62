"""The rules for described values are there wherever a described value can be met first."""

from __future__ import annotations

import subprocess
import sys

import pytest

DESCRIBED = "{'kind': 'int', 'version': 1}"
FIRST = {
    "the public name": f"import headgate as hg; hg.DescribedSnapshot({DESCRIBED}).restore_serializer()",
    "a judgement": (
        "from headgate.serde.evolution.judging_types import judge; "
        "from headgate.serde.codecs.dynamic import DynamicSerializer; "
        f"judge({DESCRIBED}, DynamicSerializer())"
    ),
    "the judgement of a snapshot": (
        "from headgate.serde.evolution.custom_serializers import stored_snapshot; "
        "from headgate.serde.codecs.dynamic import DynamicSerializer; "
        f"stored_snapshot({DESCRIBED}, DynamicSerializer()).restore_serializer()"
    ),
}


@pytest.mark.parametrize("code", FIRST.values(), ids=FIRST)
def test_whoever_comes_first_finds_the_rules(code: str) -> None:
    """In a process that has loaded nothing else of ours."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_rules_that_nobody_loaded_are_our_fault() -> None:
    """The error says what is missing, and is no UsageError."""
    code = "from headgate.serde.described_snapshot import rules; rules()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "InternalError: the rules for described values are not loaded" in done.stderr
