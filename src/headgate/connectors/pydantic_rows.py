"""Pydantic models as schemas of files: msgspec decodes the text, pydantic makes and validates the models.

A model is recognised by its marks, and pydantic is never imported.
"""

from __future__ import annotations

from typing import Any

from headgate.common.decoders import is_custom


def is_model(kind: Any) -> bool:
    """Whether a type is a model of pydantic 2."""
    return isinstance(kind, type) and isinstance(vars(kind).get("__pydantic_fields__"), dict)


def model_hook(kind: Any, value: Any) -> Any:
    """Make a model of decoded plain values; the `dec_hook` of msgspec's decoders.

    ValueError: the values do not fit the model. TypeError, of which msgspec makes a refused record: it is no
    model.
    """
    if not is_model(kind):
        raise TypeError(f"{kind!r} is none of the types that records can have")
    return kind.model_validate(value)


def check_decodable(kind: Any) -> None:
    """Refuse a class that msgspec takes for a type of its user's own and that is no model."""
    if not is_model(kind) and is_custom(kind):
        raise TypeError("it declares no fields")
