"""msgspec looks at types in one place, where one thread at a time has it do so; see `common/decoders.py`."""

from __future__ import annotations

import ast

import pytest
from source_tree import modules

ONLY_PLACE = "src/headgate/common/decoders.py"


def looks_at_a_type(call: ast.Call) -> bool:
    """Whether a call has msgspec find out about a type; a decoder of plain values does not."""
    name = ast.unparse(call.func)
    keywords = {keyword.arg for keyword in call.keywords}
    return (
        name == "msgspec.convert"
        or (name in ("msgspec.json.decode", "msgspec.msgpack.decode") and "type" in keywords)
        or (
            name in ("msgspec.json.Decoder", "msgspec.msgpack.Decoder")
            and bool(call.args or "type" in keywords)
        )
    )


def test_typed_decoders_are_made_in_one_place() -> None:
    """Two threads that make them of one class at the same time end the process."""
    found = [
        f"{module.path}:{node.lineno}: {ast.unparse(node)}"
        for module in modules("src")
        if module.path != ONLY_PLACE
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and looks_at_a_type(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("msgspec.msgpack.Decoder(Header)", True),
        ("msgspec.json.decode(data, type=Header)", True),
        ("msgspec.convert(data, Header)", True),
        ("msgspec.msgpack.Decoder(ext_hook=untag)", False),
        ("msgspec.json.decode(data)", False),
    ],
)
def test_the_rule_tells_them_apart(text: str, looks: bool) -> None:
    """It is a rule that can fail."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert looks_at_a_type(call) is looks
