"""Masks secrets in texts: those that are known, logins in URLs, and values whose names say what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = "******"
SHORTEST: Final = 6
"""Shorter secrets are not looked for: as parts of other texts they would be anything."""

LOGIN: Final = re.compile(r"(?<=://)[^/?#\s\"']+(?=@)")
"""User and password in a URL."""

_NAMED: Final = re.compile(
    r"""((?:password|passwd|passphrase|secret|token|api-?key|access-?key|credential)[\w.-]{0,40}=)"""
    r"""('[^']*'|"[^"]*"|[^\s&;,"']+)""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)


class Mask:
    """Replaces `secrets`, and what looks like one, by asterisks; any thread may use it.

    Example:
        >>> mask = Mask(["opensesame"])
        >>> mask.text("opensesame for https://ada:pw@db.example/t?password=x1&n=2, Bearer abcdefgh")
        '****** for https://******@db.example/t?password=******&n=2, Bearer ******'
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Of two secrets, one within the other, the longer one is replaced first.
        self.secrets = tuple(sorted({each for each in secrets if len(each) >= SHORTEST}, key=len)[::-1])

    def text(self, text: str) -> str:
        """Return a text with the mask in place of every secret."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        if "://" in text:
            text = LOGIN.sub(MASK, text)
        if "=" in text:
            text = _NAMED.sub(rf"\1{MASK}", text)
        return _BEARER.sub(rf"\1 {MASK}", text)
