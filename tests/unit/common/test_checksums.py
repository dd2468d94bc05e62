"""Checksums are those of zlib, whichever library computes them."""

from __future__ import annotations

import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.files.durable import crc32

WITHOUT = """
import sys
sys.modules["isal"] = None
from headgate.common.files.durable import crc32
import zlib
print(crc32 is zlib.crc32)
"""


@given(st.lists(st.binary(max_size=20_000), max_size=4))
def test_they_are_those_of_zlib(parts: list[bytes]) -> None:
    """Of any bytes, also part by part, and of a view of them."""
    found = expected = 0
    for part in parts:
        found, expected = crc32(memoryview(part), found), zlib.crc32(part, expected)
    assert found == expected


def test_without_the_faster_library_zlib_computes_them() -> None:
    """As on a machine for which there is no wheel of it."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


def test_the_faster_library_is_there() -> None:
    """Where it is installed, it is what computes them."""
    isal_zlib = pytest.importorskip("isal.isal_zlib", reason="this machine has no isal")
    assert crc32 is isal_zlib.crc32
