"""Calls of functions as text in Python's syntax: read into expressions of the plan, and written as SQL."""

from __future__ import annotations

import ast
from decimal import Decimal

from headgate.relational.expressions import Call, Cast, Expression, Literal, Reference
from headgate.relational.rules import ALIASES

TYPES = {
    "boolean", "tinyint", "smallint", "int", "bigint", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz",
}  # fmt: skip
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"}
_COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=", ast.NotEq: "<>"}
_INFIX = {"+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "<=>", "&", "|", "^", "and", "or"}
_TEMPLATES = {
    ("trim", 2): "trim(BOTH {1} FROM {0})",
    ("ltrim", 2): "trim(LEADING {1} FROM {0})",
    ("rtrim", 2): "trim(TRAILING {1} FROM {0})",
    ("not", 1): "(NOT {0})",
    ("bitwise_not", 1): "(~{0})",
    ("timestamp_add", 3): "timestampadd({0}, {1}, {2})",
    ("timestamp_diff", 3): "timestampdiff({0}, {1}, {2})",
}
"""Calls that SQL writes in another way than ``pyspark.sql.functions``, or in another order."""


def arguments_of(text: str) -> list[Expression]:
    """Read arguments: names are columns, floats decimals; `double(x)` and the like are casts."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return [_expression(each) for each in call.args]


def call_of(function: str, text: str) -> Expression:
    """Read a call; the name "cast" takes a value and the name of a type, "try_cast" likewise."""
    arguments = arguments_of(text)
    if function in ("cast", "try_cast"):
        child, to = arguments
        assert isinstance(to, Literal)
        return Cast(child, str(to.value), function == "cast")
    return Call(function, tuple(arguments))


def _expression(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value=float()):
            return Literal(Decimal(str(node.value)))
        case ast.Constant():
            return Literal(node.value)  # type: ignore[arg-type]
        case ast.Name(id="NULL" | "true" | "false"):
            return Literal({"NULL": None, "true": True, "false": False}[node.id])
        case ast.Name():
            return Reference(node.id)
        case ast.Attribute(value=ast.Name()):
            return Reference(f"{node.value.id}.{node.attr}")
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            inner = _expression(node.operand)
            assert isinstance(inner, Literal)
            return Literal(-inner.value)  # type: ignore[operator]
        case ast.BinOp():
            return Call(_BINARY[type(node.op)], (_expression(node.left), _expression(node.right)))
        case ast.Compare():
            return Call(
                _COMPARED[type(node.ops[0])], (_expression(node.left), _expression(node.comparators[0]))
            )
        case ast.Call(func=ast.Name()):
            inner_arguments = tuple(_expression(each) for each in node.args)
            if node.func.id in TYPES:
                return Cast(inner_arguments[0], node.func.id)
            return Call(node.func.id, inner_arguments)
    raise ValueError(ast.dump(node))


def sql_of(expression: Expression) -> str:
    """Write an expression as Spark's SQL."""
    match expression:
        case Reference():
            return ".".join(f"`{part}`" for part in expression.name.split("."))
        case Literal():
            return _literal(expression)
        case Cast():
            return f"{'' if expression.strict else 'try_'}cast({sql_of(expression.child)} AS {expression.to})"
        case Call():
            return _call(expression.function, expression.arguments)
    raise ValueError(expression)


def _literal(literal: Literal) -> str:
    value = literal.value
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
        return f"'{escaped}'"
    if isinstance(value, Decimal):
        return f"({value:f}BD)"
    assert isinstance(value, int)
    if value == -(2**63):
        return "(-9223372036854775807L - 1L)"
    return f"({value}{'' if -(2**31) < value < 2**31 else 'L'})"


def _call(function: str, arguments: tuple[Expression, ...]) -> str:
    texts = [sql_of(each) for each in arguments]
    name = ALIASES.get(function, function) if function in ("add", "subtract") else function
    if template := _TEMPLATES.get((name, len(texts))):
        if name.startswith("timestamp_"):
            texts[0] = texts[0].strip("'")
        return template.format(*texts)
    if name == "in":
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    if name in _INFIX:
        return f"({texts[0]} {name} {texts[1]})"
    return f"{name}({', '.join(texts)})"
