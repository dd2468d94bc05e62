"""Rules of texts as bytes and back (character sets, base64, URLs), and of checks of digits."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from headgate.relational.functions.kernels import per_row, per_value
from headgate.relational.rules import RowsFailed, Rule, Signature, Types, add, converts_by_itself, exactly

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_BYTES: Final = pa.binary()
_LINE: Final = 76
_CHARSETS: Final = {
    # Java's name: Python's for encoding, and for bytes without a mark of their order.
    "us-ascii": ("ascii", "ascii"),
    "iso-8859-1": ("latin-1", "latin-1"),
    "utf-8": ("utf-8", "utf-8"),
    "utf-16be": ("utf-16-be", "utf-16-be"),
    "utf-16le": ("utf-16-le", "utf-16-le"),
    "utf-16": ("utf-16-be", "utf-16-be"),
    "utf-32": ("utf-32-be", "utf-32-be"),
}
_MARKS: Final = {
    "utf-16": ((codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le")),
    "utf-32": ((codecs.BOM_UTF32_BE, "utf-32-be"), (codecs.BOM_UTF32_LE, "utf-32-le")),
}


def _charset(name: str) -> tuple[str, str]:
    found = _CHARSETS.get(name.lower())
    if found is None:
        known = ", ".join(_CHARSETS)
        raise RowsFailed("INVALID_PARAMETER_VALUE.CHARSET", f"{name!r} is none of the character sets {known}")
    return found


def _encode(text: str, charset: str) -> bytes:
    try:
        found = text.encode(_charset(charset)[0])
    except UnicodeError:
        raise RowsFailed("MALFORMED_CHARACTER_CODING", f"a text has letters that {charset} has not") from None
    return codecs.BOM_UTF16_BE + found if charset.lower() == "utf-16" and text else found


def _decode(data: bytes, charset: str) -> str:
    name = _charset(charset)[1]
    for mark, of_mark in _MARKS.get(charset.lower(), ()):
        if data.startswith(mark):
            data, name = data[len(mark) :], of_mark
            break
    try:
        return data.decode(name)
    except UnicodeError:
        raise RowsFailed("MALFORMED_CHARACTER_CODING", f"bytes are no text in {charset}") from None


def _base64(data: bytes) -> str:
    # As for mail (MIME): in lines of 76 letters, with CR LF between them.
    text = base64.b64encode(data).decode()
    return "\r\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def _unbase64(text: str) -> bytes:
    # As Java's decoder for mail, which skips other letters.
    letters, mark, rest = text.partition("=")
    letters = re.sub(r"[^A-Za-z0-9+/]", "", letters)
    over = len(letters) % 4
    broken = over == 1 or (mark and (over == 0 or (over == 2 and not rest.startswith("="))))
    if broken or re.search(r"[A-Za-z0-9+/]", rest):
        raise RowsFailed("IllegalArgumentException", "a text is no base64")
    return base64.b64decode(letters + "=" * (-over % 4))


def _url_encode(text: str) -> str:
    # Java leaves the star and replaces the tilde.
    return quote_plus(text, safe="*").replace("~", "%7E")


def _url_decode(text: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        raise RowsFailed("CANNOT_DECODE_URL", f"{text!r} is no encoded URL; try_url_decode gives null")
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def _luhn_check(digits: str) -> bool:
    if re.fullmatch("[0-9]+", digits) is None:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _quote(text: str) -> str:
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"


def _bytes_judge(*more: pa.DataType) -> Callable[[Types], Signature | None]:
    def judge(given: Types) -> Signature | None:
        wanted = (_BYTES, *more)
        fits = len(given) == len(wanted) and all(map(converts_by_itself, given, wanted))
        return Signature(wanted, _TEXT) if fits else None

    return judge


def _register() -> None:
    one = exactly((_TEXT,), _TEXT)
    takes = "a text and the name of a character set"
    add(Rule("encode", FAMILY, exactly((_TEXT, _TEXT), _BYTES), per_row(_encode), takes, fails=True))
    takes = "bytes and the name of a character set"
    add(Rule("decode", FAMILY, _bytes_judge(_TEXT), per_row(_decode), takes, fails=True))
    add(Rule("base64", FAMILY, _bytes_judge(), per_value(_base64), "bytes or a text"))
    add(Rule("unbase64", FAMILY, exactly((_TEXT,), _BYTES), per_value(_unbase64), "a text", fails=True))
    add(Rule("url_encode", FAMILY, one, per_value(_url_encode), "a text"))
    add(Rule("url_decode", FAMILY, one, per_value(_url_decode), "a text", fails=True))
    add(Rule("luhn_check", FAMILY, exactly((_TEXT,), pa.bool_()), per_value(_luhn_check), "a text of digits"))
    add(Rule("quote", FAMILY, one, per_value(_quote), "a text"))


_register()
