"""Rules of digests and checksums of bytes; text counts as its UTF-8 form."""

from __future__ import annotations

import binascii
import hashlib
from typing import Final

import pyarrow as pa

from headgate.relational.functions.kernels import per_row, per_value
from headgate.relational.rules import Judge, Rule, Signature, Types, add, converts_by_itself

FAMILY: Final = "hashes"
_SHA2: Final = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _of_bytes(result: pa.DataType, *others: pa.DataType, nullable: bool | None = None) -> Judge:
    def judge(given: Types) -> Signature | None:
        if len(given) != 1 + len(others) or not converts_by_itself(given[0], pa.binary()):
            return None
        fits = all(map(converts_by_itself, given[1:], others))
        return Signature((pa.binary(), *others), result, nullable) if fits else None

    return judge


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _sha2(data: bytes, bits: int) -> str | None:
    name = _SHA2.get(bits)
    return None if name is None else hashlib.new(name, data).hexdigest()


def _register() -> None:
    text = pa.string()
    for name, function in (("md5", _md5), ("sha1", _sha1)):
        add(Rule(name, FAMILY, _of_bytes(text), per_value(function), "bytes or a text"))
    add(Rule("crc32", FAMILY, _of_bytes(pa.int64()), per_value(binascii.crc32), "bytes or a text"))
    judge = _of_bytes(text, pa.int32(), nullable=True)
    takes = "bytes or a text, and one of 224, 256, 384, 512 bits"
    add(Rule("sha2", FAMILY, judge, per_row(_sha2), takes))


_register()
