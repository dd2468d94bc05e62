"""Shortens texts of a program or a peer to a length that messages, logs and memory can bear."""

from __future__ import annotations

from typing import Final

TEXT_CHARS_MAX: Final = 64 * 1024  # longest text in an error, a message or a log line

_HEAD_SHARE: Final = 4


def shortened(text: str, most: int = TEXT_CHARS_MAX) -> str:
    r"""Return a text as it is, or its head and its tail, about `most` characters, and how much was left out.

    The tail is longer: that is where a traceback says what was raised. Halves of characters, which JSON and
    names of files can bring into a text and no encoding takes, come as ``\ud800``.

    Example:
        >>> shortened("short"), shortened("a" * 50 + "b" * 50, most=8)
        ('short', 'aa [... 92 characters left out ...] bbbbbb')
    """
    if len(text) <= most:
        return encodable(text)
    head = most // _HEAD_SHARE
    tail = most - head
    left_out = f" [... {len(text) - most:,} characters left out ...] "
    return encodable(text[:head]) + left_out + encodable(text[len(text) - tail :])


def encodable(text: str) -> str:
    r"""Return a text with halves of characters (lone surrogates) written as escapes, so it can be encoded.

    Example:
        >>> encodable("ä"), encodable("a\ud800")
        ('ä', 'a\\ud800')
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def visible(text: str) -> str:
    r"""Return a text with control characters but tabs, and all else that cannot be seen, as escapes: a
    terminal would obey them.

    Example:
        >>> visible("gone: \x1b[2J\u202e")
        'gone: \\x1b[2J\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)
