"""Forms of pydantic models (version 2), stored by field like records.

A model is recognised by its marks and never imported. It is read back without validation: its values were
validated when the program made it, a validator with an effect must have that effect once, and one that
became stricter must not make a checkpoint unreadable. What the fields hold is still checked against
their annotations, as the fields of every record are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headgate.common.errors import UsageError
from headgate.serde.codecs.containers import row_converter
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.record_classes import logical_name
from headgate.serde.codecs.type_codec import Annotation, Convert, Form, copier, describe

T = TypeVar("T")
V = TypeVar("V")


def model_form(cls: Any, resolve: Callable[[Annotation], Form]) -> Form | None:
    """The form of a pydantic model; None when the class is none."""
    if not (isinstance(vars(cls).get("__pydantic_fields__"), dict) and hasattr(cls, "__pydantic_complete__")):
        return None
    name = logical_name(cls)
    _refuse_unstorable(cls, name)
    names = list(cls.__pydantic_fields__)
    annotations = [info.annotation for info in cls.__pydantic_fields__.values()]
    forms = [resolve(hint) for hint in annotations]
    immutable = bool(cls.model_config.get("frozen")) and all(form.immutable for form in forms)
    fields = {field: form.description for field, form in zip(names, forms, strict=True)}
    return Form(
        name=cls.__qualname__,
        description=describe("model", name=name, fields=fields),
        wire=tuple[tuple[tuple(form.wire for form in forms)], int],  # type: ignore[misc]
        to_plain=exactly(cls, _writer(names, row_converter([form.to_plain for form in forms]))),
        from_plain=_reader(cls, names, row_converter([form.from_plain for form in forms])),
        classes=frozenset({cls}),
        immutable=immutable,
        copy=copier(immutable, False),
    )


def _refuse_unstorable(cls: Any, name: str) -> None:
    if not cls.__pydantic_complete__:
        raise UsageError(
            f"the annotations of {name} name a type that is not defined yet; call "
            f"{cls.__name__}.model_rebuild() where it is"
        )
    if cls.model_config.get("extra") == "allow":
        raise UsageError(
            f"{name} allows extra values, which have no declared type; give it a field of type "
            "dict[str, Any] for them"
        )
    if cls.__private_attributes__:
        raise UsageError(
            f"{name} has private attributes ({', '.join(cls.__private_attributes__)}), which would be lost; "
            "make them fields, or compute them"
        )


def _writer(names: list[str], to_row: Convert) -> Convert:
    """Values of the fields, and which of them were set, as bits."""
    bits = {name: 1 << place for place, name in enumerate(names)}

    def write(value: Any) -> tuple[Sequence[V], int]:
        held = value.__dict__
        row = to_row(tuple([held[name] for name in names]))
        return row, sum(bits[name] for name in value.__pydantic_fields_set__)

    return write


def _reader(cls: type[T], names: list[str], from_row: Convert) -> Convert:
    put, end = object.__setattr__, 1 << len(names)

    def read(plain: tuple[Sequence[V], int]) -> T:
        row, mask = plain
        if not 0 <= mask < end:
            raise ValueError(f"{mask} does not tell which of {len(names)} fields were set")
        made = cls.__new__(cls)
        put(made, "__dict__", dict(zip(names, from_row(row), strict=True)))
        set_ones = {name for place, name in enumerate(names) if mask >> place & 1}
        put(made, "__pydantic_fields_set__", set_ones)
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    return read
