"""Reading Protobuf messages of an older shape: Protobuf's rules, by field number, without its silent losses.

Fields are known by their numbers. Where Protobuf would read a changed type and truncate or reinterpret what
does not fit, the change is refused: nothing that is stored may silently become another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NotRequired, TypedDict

from headgate.common.decoders import converter
from headgate.common.former_names import former_names
from headgate.common.plain_data import Description, text_in
from headgate.serde.codecs.protobuf import reader
from headgate.serde.codecs.type_codec import Form
from headgate.serde.evolution.readings import PartRefused, Reading, Refused
from headgate.serde.verdicts import AfterMigration, Reconfigured

_INTEGERS: Final = frozenset({"int64", "uint64", "int32", "uint32"})
_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "bool": _INTEGERS,
    "int32": frozenset({"int64"}),
    "uint32": frozenset({"uint64", "int64"}),
    "enum": frozenset({"int32", "int64"}),
    "sint32": frozenset({"sint64"}),
    "string": frozenset({"bytes"}),
    "message": frozenset({"bytes"}),
}
"""Types that a field's type may change to without loss: the same bytes, and every value stays the same."""
_SAME_BYTES: Final = (
    _INTEGERS | {"bool", "enum"},
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
    frozenset({"string", "bytes", "message"}),
)
"""Types that Protobuf reads as each other, even if values change."""


class _Field(TypedDict):
    number: int
    name: str
    type: str
    label: str
    of: NotRequired[str]
    oneof: NotRequired[str]


class _Enum(TypedDict):
    closed: bool
    numbers: list[int]


class _Schema(TypedDict):
    """All messages and enumerations that one message reaches, by name, as descriptions have them."""

    messages: dict[str, list[_Field]]
    enums: dict[str, _Enum]


_schema: Final = converter(_Schema)


def evolve_message(stored: Description, new: Form) -> Reading:
    """Return how Protobuf messages of description `stored` are read as messages of the class of codec `new`.
    Refused if it is another message type, or a changed field could alter a stored value.
    """
    name = text_in(stored, "name")
    if new.description["kind"] != "protobuf":
        raise Refused(f"was the Protobuf message {name} and is {new.name}")
    (cls,) = new.classes
    if name not in (new.name, *former_names(cls)):
        raise Refused(
            f"was the Protobuf message {name} and is {new.name}; if it is the same, mark the "
            f"class: hg.formerly({name!r})({cls.__name__})"
        )
    judged = _Judgement(stored, new.description)
    judged.message(name, new.name)
    verdict = AfterMigration if judged.migrates else Reconfigured
    changes = tuple(judged.changes) or (f"the order or names in {new.name} changed",)
    return Reading(verdict(changes), bytes, reader(cls, keep_unknown=not judged.drops))


class _Judgement:
    """Compares the stored and the new message type field by field, each pair of types once.
    `drops`: stored fields were removed; `migrates`: values differ from what a new program would have written.
    """

    def __init__(self, stored: Description, new: Description) -> None:
        self.stored, self.new = _schema(stored), _schema(new)
        self.changes: list[str] = []  # what differs, in words
        self.drops = self.migrates = False
        self._seen: set[tuple[str, str]] = set()

    def message(self, old_name: str, new_name: str) -> None:
        if (old_name, new_name) in self._seen:
            return
        self._seen.add((old_name, new_name))
        if old_name != new_name:
            self.changes.append(f"{old_name} became {new_name}")
        old = {field["number"]: field for field in self.stored["messages"][old_name]}
        new = {field["number"]: field for field in self.new["messages"][new_name]}
        self._oneofs(old, new, new_name)
        for number, field in old.items():
            if number in new:
                self._field(field, new[number], new_name)
            else:
                self.drops = self.migrates = True
                self.changes.append(f"field {_shown(field)} of {new_name} was removed")
        for number, field in new.items():
            if number not in old:
                self._added(field, new_name)

    def _added(self, field: _Field, name: str) -> None:
        if field["label"] == "required":
            raise PartRefused(
                f"required field {_shown(field)} was added to {name}, and stored messages have no value for "
                "it; make it optional"
            )
        self.changes.append(f"field {_shown(field)} of {name} was added")

    def _field(self, old: _Field, new: _Field, name: str) -> None:
        where = f"field {_shown(new)} of {name}"
        if old["name"] != new["name"]:
            self.changes.append(f"field {_shown(old)} of {name} became {new['name']!r}")
        self._label(old["label"], new["label"], where)
        if old.get("oneof") != new.get("oneof"):
            self.changes.append(f"{where} moved to another oneof")
        if old["type"] != new["type"]:
            self._type(old, new, where)
        elif old["type"] in ("message", "group"):
            self.message(old["of"], new["of"])
        elif old["type"] == "enum":
            self._enum(old["of"], new["of"], where)

    def _label(self, old: str, new: str, where: str) -> None:
        if old == new:
            return
        if (old, new) in (("optional", "repeated"), ("required", "repeated")):
            self.migrates = True
        elif (old, new) != ("required", "optional"):
            raise PartRefused(
                f"{where} was {old} and is {new}, which could lose what is stored; give the changed field a "
                "new number"
            )
        self.changes.append(f"{where} was {old} and is {new}")

    def _type(self, old: _Field, new: _Field, where: str) -> None:
        was, now = old["type"], new["type"]
        into_open = (was, now) == ("int32", "enum") and not self.new["enums"][new["of"]]["closed"]
        if now not in _WIDER.get(was, ()) and not into_open:
            reads = any({was, now} <= group for group in _SAME_BYTES)
            why = "the number is used for an incompatible type"
            if reads:
                why = "Protobuf would read it, but not every stored value would stay what it was"
            raise PartRefused(f"{where} was {was} and is {now}: {why}; give the changed field a new number")
        self.migrates = True
        self.changes.append(f"{where} was {was} and is {now}")

    def _enum(self, old_name: str, new_name: str, where: str) -> None:
        old, new = self.stored["enums"][old_name], self.new["enums"][new_name]
        removed = sorted(set(old["numbers"]) - set(new["numbers"]))
        if new["closed"] and not old["closed"]:
            raise PartRefused(
                f"{where}: {new_name} was an open enumeration and is a closed one, which would set aside "
                "numbers that it does not name; keep it open"
            )
        if removed and new["closed"]:
            raise PartRefused(
                f"{where}: the closed enumeration {new_name} has no {', '.join(map(str, removed))} any more, "
                "which may be stored; keep the number"
            )
        if (old_name, old) != (new_name, new):
            self.changes.append(f"{where}: members of {new_name} changed")

    def _oneofs(self, old: Mapping[int, _Field], new: Mapping[int, _Field], name: str) -> None:
        for oneof in sorted({field["oneof"] for field in new.values() if "oneof" in field}):
            members = [n for n, field in new.items() if field.get("oneof") == oneof and n in old]
            before = {old[number].get("oneof", number) for number in members}
            if len(before) > 1:
                fields = " and ".join(_shown(new[number]) for number in members)
                raise PartRefused(
                    f"fields {fields} of {name} became one oneof {oneof!r}, but several of them may be "
                    "stored; give those that move new numbers"
                )


def _shown(field: _Field) -> str:
    return f"{field['number']} {field['name']!r}"
