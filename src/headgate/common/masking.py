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

_CERTAIN: Final = (
    "password|passwd|passphrase|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|secret[_-]?key"
    "|pwd(?<![a-z0-9]pwd)"  # as a word
)
_WORDS: Final = (
    rf"(?:(?:{_CERTAIN}|secret|token|credential)[\w.-]{{0,40}}"
    r"|x-amz-signature|sig(?<![a-z0-9]sig))"  # no part of a word: design, signal
)
_HINTS: Final = (
    *("passw", "passphrase", "pwd", "sig=", "sig'", 'sig"', "x-amz-signature", "secret", "token"),
    *("credential", "_key", "-key", "apikey", "accesskey", "accountkey", "privatekey"),
)
"""One of them is in every text in which the patterns below find something; most texts have none."""

_QUOTED: Final = r"""b?(?:'[^'\\]*+(?:\\[\s\S][^'\\]*+)*+'|"[^"\\]*+(?:\\[\s\S][^"\\]*+)*+")"""
_PLAIN: Final = r"""[^\s,;"'(){}\[\]]"""  # what values without quotes are made of
_FLAGS: Final = re.IGNORECASE | re.VERBOSE

_NAMED: Final = re.compile(rf"""({_WORDS}=)(?:{_QUOTED}|["']?[^\s&;,"']+)""", _FLAGS)
_PAIR: Final = re.compile(rf"""({_WORDS}["']\s*:\s*)(?:{_QUOTED})""", _FLAGS)
"""As in a call or a URL, and as in the text of a dict."""
_SAID: Final = re.compile(
    rf"""((?:{_CERTAIN})["']?[ \t]*:[ \t]*)
    (?!(?:none|null|true|false)\b)
    (?:{_QUOTED}
    | {_PLAIN}{{1,200}}+(?=[ \t]*(?:[,;}}\r\n]|$))     # nothing else is said
    | (?=[^\s,;]{{0,60}}\d){_PLAIN}{{6,200}}+          # no word of a sentence
    )""",
    _FLAGS,
)
"""As in YAML, or in a sentence; what follows in `password: expected a text` is none."""
_SAID_TOKEN: Final = re.compile(
    r"""((?:secret|token|credentials?)["']?[ \t]*:[ \t]*)
    (?=[^\s,;]{0,60}\d)(?=[^\s,;]{0,60}[a-z])[\w.~+/=-]{16,1000}+""",
    _FLAGS,
)
"""Parsers speak of tokens, too, but not of long ones with digits."""
_PATTERNS: Final = ((_NAMED, "="), (_PAIR, ":"), (_SAID, ":"), (_SAID_TOKEN, ":"))
_NAMES: Final = re.compile(rf"(?:{_CERTAIN}|secret|token|credentials?)$", re.IGNORECASE)
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
        lower = text.lower()
        if any(hint in lower for hint in _HINTS):
            for pattern, sign in _PATTERNS:
                if sign in text:
                    text = pattern.sub(rf"\1{MASK}", text)
        return _BEARER.sub(rf"\1 {MASK}", text)

    def value(self, name: str, text: str) -> str:
        """Return the text that something has under a name; a mask where the name says that it is a secret.

        Example:
            >>> Mask().value("db_password", "x1"), Mask().value("tokens", "a b c")
            ('******', 'a b c')
        """
        return MASK if _NAMES.search(name) else self.text(text)

    def facts(self, facts: Json) -> Json:
        """Return plain data with the mask in place of every secret in its texts and names, and of texts whose
        names say that they are one.

        Example:
            >>> Mask().facts({"uri": ["s3://id:key@bucket"], "text": str({"password": "x"}), "n": 1})
            {'uri': ['s3://******@bucket'], 'text': "{'password': ******}", 'n': 1}
        """
        if isinstance(facts, str):
            return self.text(facts)
        if isinstance(facts, list):
            return [self.facts(each) for each in facts]
        if isinstance(facts, dict):
            return {
                self.text(name): self.value(name, value) if isinstance(value, str) else self.facts(value)
                for name, value in facts.items()
            }
        return facts


def shown_url(url: str) -> str:
    """Return a URL for people: the mask in place of its login, even if its scheme is missing, and of secrets.

    Example:
        >>> shown_url("ada:pw@collector:4318"), shown_url("ftp://ada:pw@host/a?token=abc")
        ('******@collector:4318', 'ftp://******@host/a?token=******')
    """
    login, _, place = url.rpartition("@")
    return Mask().text(f"{MASK}@{place}" if login and "://" not in login else url)
