"""Translation of Java's regular expressions for Arrow and Python, as far as all three mean the same.

Letters, classes, groups, alternatives, greedy and lazy quantifiers and anchors are taken; what differs
between the three dialects, or was not compared, is refused while the plan is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from headgate.common.errors import PlanError

# What a dot does not match.
_NO_LINE_END: Final = "[^\\x0a\\x0d\x85\u2028\u2029]"
_SPACE_RE2: Final = r"\t\n\v\f\r "
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a"}
# Java's $ stands before a line's end that is the last thing of the text, but not within \r\n.
_END_PYTHON: Final = r"(?:(?<!\r)(?=\n\Z)|(?=(?:\r\n|[\r\x85\u2028\u2029])?\Z))"
_REPEAT_MAX: Final = 1000


@dataclass(frozen=True)
class CommonPattern:
    """A regular expression of Java, as Python's `re` takes it, and as RE2 does; None: RE2 has no such thing.

    Attributes:
        groups: how many groups it captures.
        nullable: whether it may match an empty text.
        literal: the text that is the only match, if there is just one; else None.
    """

    python: re.Pattern[str]
    re2: str | None
    groups: int
    nullable: bool
    literal: str | None


@lru_cache(256)
def common_pattern(text: str) -> CommonPattern:
    """Return a pattern of Java translated for Python and for RE2, which is Arrow's engine.

    Raises:
        PlanError: it has something that is not taken; the message says what and where.
    """
    flags, start = (re.ASCII | re.IGNORECASE, 4) if text.startswith("(?i)") else (re.ASCII, 0)
    reader = _Reader(text, start)
    whole = reader.alternatives()
    if reader.place < len(text):
        reader.refuse("a ) without its (")
    compiled = re.compile(whole.python, flags)
    plain = whole.literal if start == 0 else None
    # In RE2, small and capital letters are told by Unicode, in Java by ASCII.
    return CommonPattern(compiled, whole.re2 if start == 0 else None, reader.groups, whole.nullable, plain)


@dataclass(frozen=True)
class _Part:
    """A part of a pattern in both dialects. `fixed`: it cannot be repeated, as an anchor."""

    python: str
    re2: str | None
    nullable: bool = False
    literal: str | None = None
    fixed: bool = False


class _Reader:
    """A parser of patterns from index `place` on, from left to right; PlanError for what is not taken."""

    def __init__(self, text: str, place: int) -> None:
        self.text, self.place, self.groups = text, place, 0

    def refuse(self, what: str) -> NoReturn:
        raise PlanError(
            f"the pattern {self.text!r} has {what} at {self.place}, which may mean something else in Spark; "
            "write it with letters, classes, groups, | * + ? {n,m} ^ and $"
        )

    def next_is(self, letters: str) -> bool:
        return self.text.startswith(letters, self.place)

    def take(self) -> str:
        if self.place >= len(self.text):
            self.refuse("an end too early")
        self.place += 1
        return self.text[self.place - 1]

    def alternatives(self) -> _Part:
        found = [self.sequence()]
        while self.next_is("|"):
            self.place += 1
            found.append(self.sequence())
        if len(found) == 1:
            return found[0]
        texts = [part.re2 for part in found if part.re2 is not None]
        re2 = "|".join(texts) if len(texts) == len(found) else None
        return _Part("|".join(part.python for part in found), re2, any(part.nullable for part in found))

    def sequence(self) -> _Part:
        found: list[_Part] = []
        while self.place < len(self.text) and not self.next_is("|") and not self.next_is(")"):
            found.append(self.repeated(self.atom()))
        return _Part(
            "".join(part.python for part in found),
            _all_of([part.re2 for part in found]),
            all(part.nullable for part in found),
            _all_of([part.literal for part in found]),
        )

    def repeated(self, part: _Part) -> _Part:
        found = re.compile(r"([*+?]|\{(\d{1,4})(,(\d{0,4}))?\})([?+]?)").match(self.text, self.place)
        if found is None:
            return part
        if part.fixed or part.nullable:
            self.refuse("a repetition of what may be empty")
        if found[5] == "+":
            self.refuse("a possessive repetition")
        least = 0 if found[1] in "*?" else int(found[2] or 1)
        if max(int(found[2] or 0), int(found[4] or 0)) > _REPEAT_MAX:
            self.refuse(f"more than {_REPEAT_MAX} repetitions")
        self.place = found.end()
        if self.place < len(self.text) and self.text[self.place] in "*+?{":
            self.refuse("a repetition of a repetition")
        re2 = None if part.re2 is None else part.re2 + found[0]
        return _Part(part.python + found[0], re2, least == 0)

    def atom(self) -> _Part:
        letter = self.take()
        match letter:
            case "(":
                return self.group()
            case "[":
                return self.letter_class()
            case "\\":
                return self.escaped()
            case ".":
                return _Part(_NO_LINE_END, _NO_LINE_END)
            case "^":
                return _Part(r"\A", r"\A", True, fixed=True)
            case "$":
                return _Part(_END_PYTHON, None, True, fixed=True)
            case "*" | "+" | "?" | "{":
                self.place -= 1
                self.refuse(f"a {letter} that repeats nothing")
        return _letter(letter)

    def group(self) -> _Part:
        opening = named = "("
        if self.next_is("?:"):
            self.place += 2
            opening = named = "(?:"
        elif self.next_is("?"):
            self.refuse("a (?")
        else:
            self.groups += 1
            named = f"(?P<{group_name(self.groups)}>"
        inner = self.alternatives()
        if not self.next_is(")"):
            self.refuse("a ( without its )")
        self.place += 1
        re2 = None if inner.re2 is None else f"{named}{inner.re2})"
        return _Part(f"{opening}{inner.python})", re2, inner.nullable)

    def escaped(self) -> _Part:
        letter = self.take()
        match letter:
            case "s":
                return _Part(r"\s", f"[{_SPACE_RE2}]")
            case "S":
                return _Part(r"\S", f"[^{_SPACE_RE2}]")
            case "d" | "D" | "w" | "W":
                return _Part(f"\\{letter}", f"\\{letter}")
            case "A":
                return _Part(r"\A", r"\A", True, fixed=True)
            case "z":
                return _Part(r"\Z", r"\z", True, fixed=True)
        return _letter(self.escaped_letter(letter))

    def escaped_letter(self, letter: str) -> str:
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            found = re.compile(f"[0-9a-fA-F]{{{2 if letter == 'x' else 4}}}").match(self.text, self.place)
            if found is None:
                self.refuse(f"a \\{letter} without its digits")
            self.place = found.end()
            return chr(int(found[0], 16))
        if letter.isalnum():
            self.refuse(f"a \\{letter}")
        return letter

    def letter_class(self) -> _Part:
        opening = "["
        if self.next_is("^"):
            self.place += 1
            opening = "[^"
        items = [self.class_item()]
        while not self.next_is("]"):
            items.append(self.class_item())
        self.place += 1
        inner = _all_of([re2 for _, re2 in items])
        python = "".join(text for text, _ in items)
        return _Part(f"{opening}{python}]", None if inner is None else f"{opening}{inner}]")

    def class_item(self) -> tuple[str, str | None]:
        first = self.class_letter()
        if first in (r"\d", r"\w", r"\s", r"\D", r"\W", r"\S"):
            return first, {r"\s": _SPACE_RE2, r"\S": None}.get(first, first)
        if self.next_is("-") and not self.next_is("-]"):
            self.place += 1
            last = self.class_letter()
            if len(last) > 1 or ord(last) < ord(first):
                self.refuse("a range of letters that has no end")
            return f"{_plain(first)}-{_plain(last)}", f"{_plain(first)}-{_plain(last)}"
        return _plain(first), _plain(first)

    def class_letter(self) -> str:
        letter = self.take()
        if letter in "[]" or (letter == "&" and self.next_is("&")):
            self.refuse(f"a {letter} in a class")
        if letter != "\\":
            return letter
        letter = self.take()
        return f"\\{letter}" if letter in "dDwWsS" else self.escaped_letter(letter)


def group_name(number: int) -> str:
    """Return the name that a group has in the pattern for RE2: Arrow gives the text of named ones only."""
    return f"g{number}"


def _all_of(texts: list[str | None]) -> str | None:
    known = [text for text in texts if text is not None]
    return "".join(known) if len(known) == len(texts) else None


def _letter(letter: str) -> _Part:
    return _Part(_plain(letter), _plain(letter), literal=letter)


def _plain(letter: str) -> str:
    # In both dialects, and also in a class, the letter stands for itself.
    if letter.isalnum() or letter in "_ " or letter > "\x7f":
        return letter
    return f"\\{letter}" if letter > " " else f"\\x{ord(letter):02x}"


# -- replacements


def replacement_parts(text: str, groups: int) -> list[str | int]:
    r"""Return a replacement of Java as texts and numbers of groups: `$1` is one, `\` takes a letter plainly.

    Raises:
        PlanError: there is no such group, or a `$` or `\` has nothing after it that it could mean.
    """
    parts: list[str | int] = []
    place = 0
    while place < len(text):
        letter = text[place]
        place += 1
        if letter == "\\" and place < len(text):
            parts.append(text[place])
            place += 1
        elif letter == "$" and (found := re.compile(r"[0-9]+", re.ASCII).match(text, place)):
            digits = _group_digits(found[0], groups)
            if int(digits) > groups:
                raise PlanError(f"the replacement {text!r} names group {digits}; the pattern has {groups}")
            parts.append(int(digits))
            place += len(digits)
        elif letter in "\\$":
            raise PlanError(
                f"the replacement {text!r} has a {letter} that stands for nothing; write \\{letter}"
            )
        else:
            parts.append(letter)
    return parts


def _group_digits(digits: str, groups: int) -> str:
    # As Java: as many as there are groups for, but one at least.
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    return digits[:size]
