"""Masks secrets in texts: those that are known, logins in URLs, and values whose names say what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headgate.common.plain_data import Json

MASK: Final = "******"
SHORTEST: Final = 6
"""Shorter secrets are not looked for: as parts of other texts they would be anything."""

LOGIN: Final = re.compile(r"(?<=://)[^/?#\s\"']+(?=@)")
"""User and password in a URL."""

_WORDS: Final = (
    r"(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credential)[\w.-]{0,40}"
)
_NAMED: Final = re.compile(rf"""({_WORDS}=)('[^']*'|"[^"]*"|[^\s&;,"']+)""", re.IGNORECASE)
_PAIR: Final = re.compile(rf"""({_WORDS}["']\s*:\s*)('[^']*'|"[^"]*")""", re.IGNORECASE)
"""As in a call or a URL, and as in the text of a dict."""
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
        if ":" in text:
            text = _PAIR.sub(rf"\1{MASK}", text)
        return _BEARER.sub(rf"\1 {MASK}", text)

    def facts(self, facts: Json) -> Json:
        """Return plain data with the mask in place of every secret in its texts and names.

        Example:
            >>> Mask().facts({"uri": ["s3://id:key@bucket"], "text": str({"password": "x"}), "n": 1})
            {'uri': ['s3://******@bucket'], 'text': "{'password': ******}", 'n': 1}
        """
        if isinstance(facts, str):
            return self.text(facts)
        if isinstance(facts, list):
            return [self.facts(each) for each in facts]
        if isinstance(facts, dict):
            return {self.text(name): self.facts(value) for name, value in facts.items()}
        return facts


def shown_url(url: str) -> str:
    """Return a URL for people: the mask in place of its login, even if its scheme is missing, and of secrets.

    Example:
        >>> shown_url("ada:pw@collector:4318"), shown_url("ftp://ada:pw@host/a?token=abc")
        ('******@collector:4318', 'ftp://******@host/a?token=******')
    """
    login, _, place = url.rpartition("@")
    return Mask().text(f"{MASK}@{place}" if login and "://" not in login else url)
