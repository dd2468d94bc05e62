"""Checks of JSON lines as bytes, which tell where msgspec's answer is surely Arrow's answer, too.

msgspec takes the last of two members of one name, and does not look into members that nobody wants; Arrow
refuses a name that comes twice, and numbers beyond a double's range anywhere. Each check may say that it does
not know: False means that Arrow has to read the lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_QUOTE, _COLON, _PLUS, _LINE_FEED, _RETURN = b'":+\n\r'
_BRACKETS: Final = (b"{}", b"[]")
_PLAIN_NAME: Final = re.compile(r"[\w.$@-]+")
# Only from the last escape of a text on, or a text of many of them would be searched from each to its end.
_ESCAPED_NAME: Final = re.compile(rb'\\u[^"\\]*"[ \t\r\n]*:')
_ODD_ZERO: Final = re.compile(rb"-0(?![0-9.eE])|0[eE]\+?[0-9]{3}")
_BEFORE_A_NUMBER: Final = b":,[ \t\r\n"
_NUMBER_MAX: Final = 400
"""Bytes of a number that are looked at, backwards from its exponent."""


def one_record_per_line(data: bytes, records: int) -> bool:
    """Return whether each line of a block surely is one record; False also where that is not certain.

    JSON takes a line feed for white space, so a decoder also accepts records that span lines or share one. A
    line feed between a closing and an opening bracket, without a comma, can only be between two records; with
    as many records as lines each line is one. `records` is the number that `data` gave, decoded as a whole.
    """
    return lines_are_records(data, line_feeds(data), records)


def line_feeds(data: bytes) -> NDArray[np.int64]:
    """Return the places of the line feeds in a block, but for one at its end."""
    feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_FEED)
    return feeds[:-1] if len(feeds) and feeds[-1] == len(data) - 1 else feeds


def lines_are_records(data: bytes, feeds: NDArray[np.int64], records: int) -> bool:
    """Return what :func:`one_record_per_line` returns, for a block whose `line_feeds` are known."""
    if records != len(feeds) + 1:
        return False
    if not len(feeds):
        return True
    text = np.frombuffer(data, np.uint8)
    ends = feeds - 1
    if text[ends[0]] == _RETURN:
        if not (text[ends] == _RETURN).all():
            return False
        ends = ends - 1
    if ends[0] < 0:
        return False
    closing, opening = text[ends], text[feeds + 1]
    return any(bool((closing == last).all() and (opening == first).all()) for first, last in _BRACKETS)


def names_are_single(data: bytes, present: Mapping[str, int], others: int) -> bool:
    """Return whether no object of `data`, which msgspec has decoded, surely has a wanted name twice, nor a
    number beyond a double's range in a member that was not decoded.

    Arguments:
        data: lines of objects.
        present: wanted name -> in how many lines it was found.
        others: how many further members were decoded.
    """
    text = np.frombuffer(data, np.uint8)
    # The colon of a member is after a quote or white space; if it is in a text, it is one too many.
    if np.count_nonzero((text[1:] == _COLON) & (text[:-1] <= _QUOTE)) == sum(present.values()) + others:
        return True
    return _each_is_single(data, present) and not _has_huge_number(data, text)


def _each_is_single(data: bytes, present: Mapping[str, int]) -> bool:
    # A name of such characters is written in quotes as it is, or with \u; found elsewhere, it is too many.
    if not all(map(_PLAIN_NAME.fullmatch, present)):
        return False
    if b"\\u" in data and _ESCAPED_NAME.search(data):
        return False
    return all(data.count(b'"%b"' % name.encode()) == number for name, number in present.items())


def _has_huge_number(data: bytes, text: Bytes) -> bool:
    # Its exponent has three digits; maybe it is in a text after a space, which counts, too.
    found = np.flatnonzero(((text[1:-1] | 32) == ord("e")) & _digits(text[:-2])) + 1
    last = len(text) - 1
    first_digit = found + 1 + (text[np.minimum(found + 1, last)] == _PLUS)
    for place in range(3):
        far = _digits(text[np.minimum(first_digit + place, last)])
        found, first_digit = found[far], first_digit[far]
    for at in found.tolist():
        rest = data[max(0, at - _NUMBER_MAX) : at].rstrip(b"0123456789.").removesuffix(b"-")
        if not rest or rest[-1] in _BEFORE_A_NUMBER:
            return True
    return False


def _digits(text: Bytes) -> NDArray[np.bool_]:
    return (text >= ord("0")) & (text <= ord("9"))


def has_odd_zero(data: bytes) -> bool:
    """Return whether there may be a number `-0` or `0e999`: msgspec reads 0; Arrow reads -0.0 or, unsigned,
    nothing, and refuses an exponent beyond a double's range.
    """
    return _ODD_ZERO.search(data) is not None
