"""Reads patterns as SQL's MATCH_RECOGNIZE writes them: names, quantifiers, parentheses and alternatives."""

from __future__ import annotations

import re
from typing import Final

from headgate.common.errors import PlanError
from headgate.relational.patterns.shapes import Either, Repeat, Series, Shape, Variable

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<sign>[()|])|(?P<times>[?*+]|\{\s*\d*\s*(?:,\s*\d*\s*)?\})(?P<lazy>\?)?)"
)
_TIMES: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}


def parsed(text: str) -> Shape:
    """Return the pattern that a text describes, such as "START DOWN+ UP"; PlanError: it is none.

    Example:
        >>> print(parsed("A (B | C)+? D{2,}"))
        (A (B | C)+? D{2,})
    """
    reader = _Reader(text)
    found = reader.alternatives()
    if reader.token is not None:
        raise reader.wrong("the end")
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self.token: re.Match[str] | None = None
        self._advance()

    def alternatives(self) -> Shape:
        options = [self._series()]
        while self._is("|"):
            self._advance()
            options.append(self._series())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _series(self) -> Shape:
        parts = [self._repeated()]
        while self.token is not None and (self.token["name"] or self._is("(")):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _repeated(self) -> Shape:
        part = self._single()
        while self.token is not None and self.token["times"]:
            part = Repeat(part, *self._times(self.token["times"]), greedy=self.token["lazy"] is None)
            self._advance()
        return part

    def _single(self) -> Shape:
        if self._is("("):
            self._advance()
            inner = self.alternatives()
            if not self._is(")"):
                raise self.wrong("a closing parenthesis")
            self._advance()
            return inner
        if self.token is None or not self.token["name"]:
            raise self.wrong("the name of a variable")
        name = self.token["name"]
        self._advance()
        return Variable(name)

    def _times(self, text: str) -> tuple[int, int | None]:
        if text in _TIMES:
            return _TIMES[text]
        low, comma, high = text[1:-1].replace(" ", "").partition(",")
        if not low and not high:
            raise PlanError(f"{text} in the pattern {self._text!r} has no number; write {{2}} or {{2,5}}")
        return int(low or 0), (int(high) if high else None) if comma else int(low)

    def _is(self, sign: str) -> bool:
        return self.token is not None and self.token["sign"] == sign

    def _advance(self) -> None:
        self.token = _TOKEN.match(self._text, self._place)
        if self.token is not None:
            self._place = self.token.end()
        elif self._text[self._place :].strip():
            raise PlanError(f"the pattern {self._text!r} has a sign that means nothing {self._where()}")

    def wrong(self, expected: str) -> PlanError:
        place = self._place if self.token is None else self.token.start()
        return PlanError(f"the pattern {self._text!r} lacks {expected} {self._where(place)}")

    def _where(self, place: int | None = None) -> str:
        rest = self._text[self._place if place is None else place :].strip()
        return f"before {rest!r}" if rest else "at its end"
