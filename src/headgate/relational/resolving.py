"""Resolves a program's expressions against a table's columns: finds columns and functions, gives types."""

from __future__ import annotations

import datetime as dt
import difflib
from decimal import Decimal

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.casts import cast_exists, cast_is_safe, cast_values
from headgate.relational.expressions import (
    AggregateCall,
    Alias,
    Aliases,
    Call,
    Case,
    Cast,
    Expression,
    Generator,
    Literal,
    ProcessingTime,
    PythonCall,
    Reference,
    Scalar,
    TimeWindow,
)
from headgate.relational.function_families import load_families
from headgate.relational.resolved import (
    Apply,
    Choice,
    Column,
    Constant,
    Conversion,
    Member,
    PythonApply,
    Typed,
    WindowsOf,
)
from headgate.relational.rules import ALIASES, RULES, Rule
from headgate.relational.schema import Schema
from headgate.relational.spark_types import (
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    WINDOW,
    common_type,
    is_integer,
    text_of,
    type_named,
)

TRY = "try_"


def resolve(expression: Expression, schema: Schema) -> Typed:
    """Return the expression with its types and with columns by index, for batches of `schema`.

    Raises:
        PlanError: a column or function does not exist, or does not take what it is given; the message names
            the nearest one.
    """
    match expression:
        case Alias():
            return resolve(expression.child, schema)
        case Reference():
            return _column(expression.name, schema)
        case Literal():
            return constant(expression.value)
        case Cast():
            return _cast(expression, resolve(expression.child, schema))
        case Case():
            return _choice(expression, schema)
        case Call():
            return called(expression.function, [_argument(part, schema) for part in expression.arguments])
        case PythonCall():
            arguments = tuple(resolve(part, schema) for part in expression.arguments)
            return PythonApply(expression.function.type, True, expression.function, arguments)
        case AggregateCall():
            raise PlanError(f"{expression} is an aggregate; it goes into group_by(...).agg(...)")
        case TimeWindow():
            raise PlanError(f"{expression} is a window; it goes into group_by(...) or select(...)")
        case ProcessingTime():
            raise PlanError(
                f'{expression} is the time of a window; write group_by(F.window(F.proctime(), "10s"))'
            )
        case Generator():
            raise PlanError(f"{expression} gives several rows; it is a column of select(), not part of one")
        case Aliases():
            raise PlanError(f"{expression} has {len(expression.names)} names for one column; give it one")
    raise PlanError(f"{expression!r} is no expression")


def _argument(expression: Expression, schema: Schema) -> Typed:
    try:
        return resolve(expression, schema)
    except PlanError as error:
        name = expression.name if isinstance(expression, Reference) else None
        if name is None or schema.find(name) is not None or difflib.get_close_matches(name, schema.names, 1):
            raise
        raise PlanError(f"{error}; for the text itself write F.lit({name!r})") from None


def windows_of(window: TimeWindow, schema: Schema) -> Typed:
    """Return the expression of the array of each row's windows; its time may be a timestamp, or integer ms.

    PlanError for session windows and windows of processing time, which only group_by() takes.
    """
    if window.kind == "session":
        raise PlanError(f"{window} is known when it ends; it goes into group_by(...)")
    if window.clock == "processing":
        raise PlanError(f"{window} is of the wall clock; it goes into group_by(...)")
    time = resolve(window.time, schema)
    if is_integer(time.type):
        time = called("timestamp_millis", [time])
    return WindowsOf(
        pa.list_(pa.field("element", WINDOW, False)),
        time.nullable,
        child=convert(time, TIMESTAMP),
        size=window.size_ms * 1000,
        slide=window.slide_ms * 1000,
        offset=window.offset_ms * 1000,
        grow=window.kind == "cumulative",
    )


def _column(name: str, schema: Schema) -> Typed:
    place = schema.find(name)
    if place is not None:
        field = schema.fields[place]
        return Column(field.type, field.nullable, place, field.name)
    first, *rest = name.split(".")
    if not rest or schema.find(first) is None:
        schema.place(name)  # raises, with the nearest name
    found = _column(first, schema)
    for part in rest:
        found = member(found, part)
    return found


def member(child: Typed, name: str) -> Typed:
    """Return the field `name` of the struct `child`; PlanError if it is no struct, or has no such field."""
    names = [field.name for field in child.type] if pa.types.is_struct(child.type) else []
    if name not in names:
        raise PlanError(f"{child} is {text_of(child.type)}, which has no field {name!r}")
    field = child.type.field(name)
    return Member(field.type, child.nullable or field.nullable, child, name)


def constant(value: Scalar) -> Constant:
    """Return a value of Python as a constant, of the type that it has in Spark; PlanError if it has none.

    Example:
        >>> text_of(constant(7).type), text_of(constant(2**40).type), text_of(constant("x").type)
        ('int', 'bigint', 'string')
    """
    kind = _type_of(value)
    return Constant(kind, value is None, pa.scalar(value, kind))


def _type_of(value: Scalar) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            if -(2**63) <= value < 2**63:
                return pa.int32() if -(2**31) <= value < 2**31 else pa.int64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case bytes():
            return pa.binary()
        case Decimal() if value.is_finite():
            return _decimal_of(value)
        case dt.datetime():
            return LOCAL_TIMESTAMP if value.tzinfo is None else TIMESTAMP
        case dt.date():
            return pa.date32()
        case dt.timedelta():
            return pa.duration("us")
    raise PlanError(f"{value!r} of type {type(value).__name__} cannot stand as a value in an expression")


def _decimal_of(value: Decimal) -> pa.DataType:
    exponent = int(value.as_tuple().exponent)
    digits, scale = len(value.as_tuple().digits), max(0, -exponent)
    return pa.decimal128(max(digits + max(0, exponent), scale), scale)


def _cast(expression: Cast, child: Typed) -> Typed:
    to = type_named(expression.to)
    if not cast_exists(child.type, to):
        raise PlanError(f"{child} is {text_of(child.type)} and cannot be cast to {text_of(to)}")
    return convert(child, to, strict=expression.strict)


def convert(child: Typed, to: pa.DataType, *, strict: bool = True) -> Typed:
    """Return `child` cast to `to`, itself if of that type; a misfit raises if `strict`, else becomes null."""
    if child.type == to:
        return child
    if isinstance(child, Constant) and (not child.value.is_valid or cast_is_safe(child.type, to)):
        return Constant(to, child.nullable, cast_values(child.value, to, strict=True))
    safe = cast_is_safe(child.type, to)
    return Conversion(to, child.nullable or not (strict or safe), child, strict, safe)


def _choice(expression: Case, schema: Schema) -> Typed:
    conditions = [resolve(condition, schema) for condition, _ in expression.branches]
    values = [resolve(value, schema) for _, value in expression.branches]
    for condition in conditions:
        if condition.type != pa.bool_():
            raise PlanError(f"{condition} is {text_of(condition.type)}; a condition must be boolean")
    otherwise = resolve(expression.otherwise, schema)
    return choice(list(zip(conditions, values, strict=True)), otherwise)


def choice(branches: list[tuple[Typed, Typed]], otherwise: Typed) -> Typed:
    """Return a choice between values, all converted to their common type; PlanError if they have none."""
    values = [value for _, value in branches]
    kind = common_of([*values, otherwise], "the branches of when()")
    converted = [(condition, convert(value, kind)) for condition, value in branches]
    last = convert(otherwise, kind)
    return Choice(
        kind, last.nullable or any(value.nullable for _, value in converted), tuple(converted), last
    )


def common_of(values: list[Typed], what: str) -> pa.DataType:
    """Return the type that values have in common; `what` names them in the PlanError if there is none."""
    kind: pa.DataType = values[0].type
    for value in values[1:]:
        found = common_type(kind, value.type)
        if found is None:
            raise PlanError(
                f"{what} are {text_of(kind)} and {text_of(value.type)}, which have no type in common"
            )
        kind = found
    return kind


def _rule(name: str) -> Rule | None:
    return RULES.get(ALIASES.get(name, name))


def called(name: str, arguments: list[Typed]) -> Typed:
    """Return a call of the registered function `name`, or, after "try_", of its form that gives null.
    Arguments are converted as Spark does by itself. PlanError: no such function, or not of these types.
    """
    load_families()
    rule, tolerant = _rule(name), False
    if rule is None and name.startswith(TRY):
        rule, tolerant = _rule(name.removeprefix(TRY)), True
    if rule is None:
        near = difflib.get_close_matches(name, RULES, 1, 0.0)
        sql = "" if name.isidentifier() else " F.expr() takes a name and arguments, no SQL"
        raise PlanError(f"there is no function {name!r}; did you mean {near[0]!r}?{sql}")
    if rule.family == "arithmetic":
        arguments = _whole_beside_decimals(arguments)
    found = rule.judge(tuple(argument.type for argument in arguments))
    if found is None or len(found.arguments) != len(arguments):
        given = ", ".join(text_of(argument.type) for argument in arguments) or "nothing"
        hint = "; put each comparison in parentheses: (a > 1) & (b > 2)" if name in ("and", "or") else ""
        raise PlanError(f"{name}() takes {rule.takes}; got {given}{hint}")
    if rule.refine is not None:
        found = rule.refine(found, arguments)
    converted = tuple(convert(each, to) for each, to in zip(arguments, found.arguments, strict=True))
    nullable = any(each.nullable for each in converted) if found.nullable is None else found.nullable
    if rule.choice is not None and any(each.may_fail for each in converted[1:]):
        return rule.choice(converted)
    return Apply(found.result, nullable or tolerant, rule.name, converted, rule.fails, tolerant)


def _whole_beside_decimals(arguments: list[Typed]) -> list[Typed]:
    if not any(pa.types.is_decimal(each.type) for each in arguments):
        return arguments
    found = []
    for each in arguments:
        if isinstance(each, Constant) and is_integer(each.type) and each.value.is_valid:
            each = constant(Decimal(each.value.as_py()))
        found.append(each)
    return found
