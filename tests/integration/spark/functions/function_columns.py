"""A table of odd values, a column for each type, over which functions are compared with Spark."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from functools import cache

import pyarrow as pa

ROWS = 240
WORDS = ["a", "b", "ab", "ba", "abc", "x", ""]
ODD_TEXTS = [
    "", " ", "   ", "a", "A", "abc", "Hello World", "hello-world,again 2x", "straße", "STRASSE", "ﬁne oﬃce",
    "ΟΔΥΣΣΕΥΣ", "όσος ς", "e\u0301cole", "École", "😀 smile 😀", "naïve\tcafé", "İstanbul ı", "line\nbreak",
    "cr\r\nlf\n", "a,b,,c", "a:1,b:2", "  padded  ", "100%", "under_score", "back\\slash", "it's", "ǆ ǅ",
    "日本語テキスト", "x" * 40, "aaa", "abcabc", "\u2028", "nul\x00byte", "ÀÉÎÕÜ", "tab\there", "x=1&y=2 z",
    "Ünï~*-._", "McDonald o'neil", "𝒳𝒴 math", "Robert", "Rupert", "Tymczak", "Pfister", "4111111111111111",
    "4111111111111112",
]  # fmt: skip
NUMBER_TEXTS = [
    "0",
    "1",
    "-1",
    "10",
    "ff",
    "zz",
    "-ff",
    " 12 ",
    "9x",
    "x9",
    "",
    "101",
    "-7",
    "7fffffffffffffff",
]
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    2.675,
    1e-7,
    -123.456,
    1e7,
    12345678.9,
    1e300,
    -1e300,
]
SPECIAL = [float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308]
Maker = Callable[[random.Random], object]


def _mixed(special: list[object], rest: Maker, share: float = 0.4) -> Maker:
    return lambda rng: rng.choice(special) if rng.random() < share else rest(rng)


def _integer(bits: int) -> Maker:
    top = 2 ** (bits - 1)
    return _mixed([0, 1, -1, 2, 7, 10, 33, top - 1, -top], lambda rng: rng.randrange(-top, top))


def _decimal(digits: int, scale: int) -> Maker:
    top = 10**digits
    special: list[object] = [
        Decimal(0),
        Decimal(1),
        Decimal("0.5"),
        Decimal("-2.5"),
        Decimal("1.05"),
        Decimal("-0.15"),
    ]
    return _mixed(
        [Decimal(each).quantize(Decimal(1).scaleb(-scale)) for each in special],  # type: ignore[arg-type]
        lambda rng: Decimal(rng.randrange(-top + 1, top) // 10 ** rng.randrange(digits)).scaleb(-scale),
    )


def _date(rng: random.Random) -> dt.date:
    if rng.random() < 0.2:
        return rng.choice(
            [dt.date(2024, 2, 29), dt.date(2023, 1, 31), dt.date(1970, 1, 1), dt.date(1900, 2, 28)]
        )
    return (
        dt.date(1, 1, 1) + dt.timedelta(days=rng.randrange(3_652_000))
        if rng.random() < 0.2
        else (dt.date(1900, 1, 1) + dt.timedelta(days=rng.randrange(50_000)))
    )


def _time(rng: random.Random) -> dt.datetime:
    moment = dt.time(
        rng.choice([0, 11, 12, 23]), rng.choice([0, 59]), rng.choice([0, 59]), rng.choice([0, 999_999, 120])
    )
    if rng.random() < 0.4:
        return dt.datetime.combine(_date(rng), moment)
    return dt.datetime.combine(_date(rng), dt.time()) + dt.timedelta(
        microseconds=rng.randrange(86_400_000_000)
    )


def _duration(rng: random.Random) -> dt.timedelta:
    if rng.random() < 0.3:
        return rng.choice([dt.timedelta(0), dt.timedelta(days=-1, microseconds=1), dt.timedelta(hours=25)])
    return dt.timedelta(microseconds=rng.randrange(-(10**14), 10**14))


def _array(inner: Maker, nulls: float = 0.15, most: int = 6) -> Maker:
    def made(rng: random.Random) -> object:
        return [None if rng.random() < nulls else inner(rng) for _ in range(rng.randrange(most))]

    return made


def _map(key: Maker, value: Maker) -> Maker:
    def made(rng: random.Random) -> object:
        keys = dict.fromkeys(key(rng) for _ in range(rng.randrange(5)))
        return [(each, None if rng.random() < 0.2 else value(rng)) for each in keys]

    return made


def _choice(values: list[str]) -> Maker:
    return lambda rng: rng.choice(values)


def _text(rng: random.Random) -> str:
    return (
        rng.choice(ODD_TEXTS)
        if rng.random() < 0.8
        else "".join(rng.choices("aAbB ,ßé😀1_%-", k=rng.randrange(12)))
    )


def _entries(rng: random.Random) -> object:
    keys = dict.fromkeys(rng.choice(WORDS) for _ in range(rng.randrange(4)))
    return [{"k": key, "v": rng.randrange(9)} for key in keys]


def _between(low: float, high: float) -> Maker:
    return lambda rng: rng.uniform(low, high)


def _small(low: int, high: int) -> Maker:
    return lambda rng: rng.randrange(low, high)


_INTS = _mixed([0, 1, 2, 3], _small(-3, 9), 0.6)
_DOUBLE = _mixed([*DOUBLES, *SPECIAL], _between(-1e4, 1e4), 0.5)
_ENTRY = pa.struct({"k": pa.string(), "v": pa.int32()})
COLUMNS: dict[str, tuple[pa.DataType, Maker]] = {
    "b": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "b2": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "t": (pa.int8(), _integer(8)),
    "sm": (pa.int16(), _integer(16)),
    "i": (pa.int32(), _integer(32)),
    "i2": (pa.int32(), _integer(32)),
    "n": (pa.int32(), _small(-4, 13)),
    "n2": (pa.int32(), _small(1, 6)),
    "l": (pa.int64(), _integer(64)),
    "l2": (pa.int64(), _integer(64)),
    "k": (pa.int64(), _small(-1_000_000, 1_000_000)),
    "f": (pa.float32(), _mixed([0.0, -0.0, 1.5, float("nan"), float("inf"), 0.1], _between(-100, 100))),
    "d": (pa.float64(), _DOUBLE),
    "d2": (pa.float64(), _DOUBLE),
    "e1": (pa.float64(), _between(-20, 20)),
    "u": (pa.float64(), _mixed([0.0, -0.0, 1.0, -1.0, float("nan")], _between(-1.2, 1.2), 0.2)),
    "s": (pa.string(), _text),
    "s2": (pa.string(), _text),
    "w": (pa.string(), _choice(WORDS)),
    "w2": (pa.string(), _choice(WORDS)),
    "nt": (pa.string(), _choice(NUMBER_TEXTS)),
    "bin": (pa.binary(), lambda rng: bytes(rng.choices(range(256), k=rng.randrange(9)))),
    "bin2": (pa.binary(), lambda rng: bytes(rng.choices(range(2), k=rng.randrange(3)))),
    "dt": (pa.date32(), _date),
    "dt2": (pa.date32(), _date),
    "ts": (pa.timestamp("us", tz="UTC"), _time),
    "ts2": (pa.timestamp("us", tz="UTC"), _time),
    "tn": (pa.timestamp("us"), _time),
    "tn2": (pa.timestamp("us"), _time),
    "du": (pa.duration("us"), _duration),
    "du2": (pa.duration("us"), _duration),
    "dec": (pa.decimal128(10, 2), _decimal(10, 2)),
    "dec2": (pa.decimal128(20, 6), _decimal(20, 6)),
    "big": (pa.decimal128(38, 10), _decimal(36, 10)),
    "ai": (pa.list_(pa.int32()), _array(_INTS)),
    "ai2": (pa.list_(pa.int32()), _array(_INTS, most=4)),
    "full": (pa.list_(pa.int32()), _array(_INTS, nulls=0.0)),
    "al": (pa.list_(pa.int64()), _array(_integer(64))),
    "ad": (pa.list_(pa.float64()), _array(_mixed([0.0, -0.0, *SPECIAL], _between(-3, 3), 0.7))),
    "ad2": (pa.list_(pa.float64()), _array(_mixed([0.0, -0.0, *SPECIAL], _between(-3, 3), 0.7))),
    "aw": (pa.list_(pa.string()), _array(_choice(WORDS))),
    "adt": (pa.list_(pa.date32()), _array(_date)),
    "adec": (pa.list_(pa.decimal128(10, 2)), _array(_decimal(4, 2))),
    "aai": (pa.list_(pa.list_(pa.int32())), _array(_array(_INTS, most=3), 0.05, most=4)),
    "m": (pa.map_(pa.string(), pa.int32()), _map(_choice(WORDS), _INTS)),
    "mi": (pa.map_(pa.int32(), pa.string()), _map(_INTS, _choice(WORDS))),
    "st": (
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        lambda rng: {"a": _INTS(rng), "b": rng.choice(WORDS)},
    ),
    "ae": (pa.list_(_ENTRY), _entries),
}  # fmt: skip
"""Name -> type and how a value is made; one in eight is null."""


@cache
def odd_table() -> pa.Table:
    """The table; always the same."""
    columns = {}
    for name, (kind, made) in COLUMNS.items():
        rng = random.Random(name)
        columns[name] = pa.array([None if rng.random() < 0.12 else made(rng) for _ in range(ROWS)], kind)
    return pa.table(columns)
