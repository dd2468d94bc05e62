"""What a program's classes and functions keep when they travel by value to another process.

Each test runs a script whose `__main__` defines the classes, ships them, and has another process, which
never saw the script, print what it finds.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

RECEIVER = """
import sys
from headgate.runtime.job.shipped_program import received
print(received(sys.stdin.buffer.read())())
"""
SENDER = """
import subprocess, sys
from headgate.runtime.job.shipped_program import shipped
shipped_bytes = shipped(report)
again = subprocess.run([sys.executable, "-c", RECEIVER], input=shipped_bytes, capture_output=True)
sys.stderr.write(again.stderr.decode())
print("here", report())
print("there", again.stdout.decode().strip())
"""


def both(tmp_path: Path, script: str) -> tuple[str, str]:
    """What `report()` of a script gives in the script itself, and in the process it was shipped to."""
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script) + f"\nRECEIVER = {RECEIVER!r}\n" + SENDER)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    here, there = done.stdout.strip().split("\n")
    return here.removeprefix("here "), there.removeprefix("there ")


CASES = {
    "a type of its own by NewType": """
        from typing import NewType, get_type_hints
        UserId = NewType("UserId", int)
        class Base:
            ids: dict[UserId, list[UserId]]
        def of(user: UserId) -> UserId:
            return user
        def report():
            hints = get_type_hints(of)
            same = hints["user"] is hints["return"] is Base.__annotations__["ids"].__args__[0]
            return same, hints["user"], hints["user"].__supertype__, of(UserId(3))
    """,
    "aliases of an enumeration": """
        from enum import Enum
        class Color(Enum):
            RED = 1
            BLUE = 2
            AZURE = 2
        def report():
            return Color["AZURE"] is Color.BLUE, Color(2).name, list(Color), Color.AZURE.name
    """,
    "an enumeration with a constructor": """
        from enum import Enum
        class Planet(Enum):
            EARTH = (5.9, 6.3)
            MARS = (0.6, 3.3)
            def __init__(self, mass, radius):
                self.mass, self.radius = mass, radius
            @property
            def gravity(self):
                return round(self.mass / self.radius, 2)
        def report():
            return Planet.MARS.gravity, Planet((0.6, 3.3)), [p.mass for p in Planet]
    """,
    "an enumeration that makes its own values": """
        from enum import Enum
        class Coordinate(bytes, Enum):
            def __new__(cls, value, label):
                obj = bytes.__new__(cls, [value])
                obj._value_ = value
                obj.label = label
                return obj
            PX = (0, "P.X")
            PY = (1, "P.Y")
        def report():
            return Coordinate(1).label, bytes(Coordinate.PY), Coordinate.PX.value
    """,
    "enumerations of numbers, texts and flags": """
        from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
        import datetime
        class Level(IntEnum):
            LOW = 1
            HIGH = 2
        class Kind(StrEnum):
            A = auto()
            B = auto()
        class Right(Flag):
            READ = auto()
            WRITE = auto()
            ALL = READ | WRITE
        class Day(datetime.date, Enum):
            FIRST = 2020, 1, 1
        class Plain(str, Enum):
            X = "x"
        def report():
            return (Level.HIGH + 1, Kind("b"), Right.READ | Right.WRITE, Right.ALL in Right.ALL, ~Right.READ,
                    Day.FIRST.year, Plain.X.upper(), [right for right in Right], Level(2), f"{Kind.A}")
    """,
    "an enumeration with _missing_ and methods": """
        from enum import Enum
        class Answer(Enum):
            YES = "y"
            NO = "n"
            @classmethod
            def _missing_(cls, value):
                return cls.NO
            def flip(self):
                return Answer.NO if self is Answer.YES else Answer.YES
        def report():
            return Answer("what"), Answer.YES.flip(), Answer.NO.flip().value
    """,
    "a struct with defaults, options and methods": """
        import msgspec
        class Base(msgspec.Struct, frozen=True, tag=True):
            id: int
        class Commit(Base, frozen=True, rename="camel"):
            author_name: str
            files: list[str] = []
            size: int = 7
            parent: "Commit | None" = None
            def total(self):
                return self.size + len(self.files)
        def report():
            text = b'{"type":"Commit","id":1,"authorName":"a","parent":null}'
            made = msgspec.json.decode(text, type=Commit)
            nested = Commit(2, "b", ["x"], parent=made)
            try:
                made.size = 1
            except AttributeError as error:
                frozen = str(error)
            return (made, made.total(), nested.parent == made, msgspec.json.encode(made), frozen,
                    Commit.__struct_fields__, hash(Commit(1, "a", ())) == hash(Commit(1, "a", ())))
    """,
    "a struct with __post_init__ and keywords only": """
        import msgspec
        from typing import Generic, TypeVar
        T = TypeVar("T")
        class Point(msgspec.Struct, kw_only=True):
            x: int
            y: int = 0
            def __post_init__(self):
                if self.x < 0:
                    raise ValueError(f"{type(self) is Point} {self.x}")
        class Box(msgspec.Struct, Generic[T]):
            held: T
        def report():
            try:
                Point(x=-1)
            except ValueError as error:
                found = str(error)
            return Point(x=1), found, msgspec.json.decode(b'{"held":[1]}', type=Box[list[int]])
    """,
    "slots of a dataclass": """
        from dataclasses import dataclass
        @dataclass(frozen=True, slots=True)
        class Commit:
            sha: str
            size: int = 0
            def bigger(self):
                return Commit(self.sha, self.size + 1)
        def report():
            bigger = Commit("a").bigger()
            return bigger, hasattr(bigger, "__dict__"), Commit("a", 1) == bigger
    """,
    "private slots": """
        class Account:
            __slots__ = ("__balance", "name")
            def __init__(self, name, balance):
                self.name, self.__balance = name, balance
            def balance(self):
                return self.__balance
        def report():
            return Account("a", 3).balance(), hasattr(Account("a", 3), "__dict__")
    """,
    "__init_subclass__ with arguments": """
        class Base:
            registry = {}
            calls = []
            def __init_subclass__(cls, /, tag, **rest):
                super().__init_subclass__(**rest)
                cls.tag = tag
                Base.registry[tag] = cls
                Base.calls.append(tag)
        class A(Base, tag="a"):
            pass
        class B(A, tag="b"):
            pass
        def report():
            class C(Base, tag="c"):
                pass
            Base.calls.remove("c")
            return A.tag, B.tag, Base.registry["b"] is B, sorted(Base.registry), list(Base.calls), C.tag
    """,
    "cached functions, also recursive ones": """
        import functools
        @functools.cache
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        class Word(str):
            @functools.cached_property
            def shout(self):
                return self.upper()
            @functools.lru_cache(maxsize=3)
            def times(self, n):
                return self * n
        def report():
            word = Word("a")
            return fib(50), fib.cache_parameters(), fib.__name__, word.shout, word.times(2), word.__dict__
    """,
    "caches of a class and decorators with state": """
        import functools
        def counted(function):
            calls = []
            @functools.wraps(function)
            def inner(*args):
                calls.append(args)
                return function(*args), len(calls)
            inner.calls = calls
            return inner
        class Unit:
            known = {"m": 1}
            @classmethod
            def get(cls, name):
                return cls.known.setdefault(name, len(cls.known) + 1)
        @counted
        def double(x):
            return 2 * x
        Unit.get("km")
        def report():
            del double.calls[:]
            return double(1), double(2), len(double.calls), Unit.get("km"), Unit.known
    """,
    "records that msgspec has decoded into": """
        from dataclasses import dataclass
        from enum import Enum
        from typing import NamedTuple, TypedDict
        import msgspec
        class Kind(Enum):
            FIX = "fix"
            MEND = "fix"
        class Place(NamedTuple):
            line: int = 0
        class Note(TypedDict):
            text: str
        @dataclass
        class Commit:
            sha: str
            parents: "list[str]"
            kind: Kind
            place: Place
            note: Note
        text = b'{"sha": "a", "parents": ["b"], "kind": "fix", "place": [7], "note": {"text": "n"}}'
        msgspec.json.decode(text, type=Commit)
        def report():
            return msgspec.json.decode(text, type=Commit), Kind["MEND"].name
    """,
    "fields without a default, and with one that is made": """
        import dataclasses, inspect
        from dataclasses import dataclass, field
        import msgspec
        from headgate.serde.codecs.record_classes import defaults_of
        @dataclass
        class Commit:
            sha: str
            files: "list[str]" = field(default_factory=list)
            size: int = 3
        @dataclass(kw_only=True, slots=True)
        class Signed(Commit):
            by: str
            keys: "dict[str, int]" = field(default_factory=dict)
        def report():
            @dataclass
            class Later(Commit):
                more: "set[int]" = dataclasses.field(default_factory=set)
            marks = [
                (f.name, f.default is dataclasses.MISSING, f.default_factory is dataclasses.MISSING)
                for cls in (Commit, Signed) for f in dataclasses.fields(cls)
            ]
            arguments = inspect.signature(Commit).parameters
            without = [name for name, one in arguments.items() if one.default is one.empty]
            made = {"sha", "files", "size"} - defaults_of("dataclass", Commit).keys()
            read = msgspec.json.decode(b'{"sha": "a"}', type=Commit)
            signed = msgspec.json.decode(b'{"sha": "a", "by": "b"}', type=Signed)
            try:
                msgspec.json.decode(b'{"size": 1}', type=Commit)
            except msgspec.ValidationError as error:
                refused = str(error)
            return marks, without, made, read, signed, refused, Later("c")
    """,
    "fields of other kinds of records with a default that is made": """
        from typing import NamedTuple
        import attrs, msgspec, pydantic
        from headgate.serde.codecs.record_classes import defaults_of
        @attrs.define
        class Commit:
            sha: str
            files: "list[str]" = attrs.Factory(list)
        class Struct(msgspec.Struct):
            sha: str
            files: "list[str]" = msgspec.field(default_factory=list)
        class Optional(msgspec.Struct):
            sha: str
            size: int | msgspec.UnsetType = msgspec.UNSET
        class Model(pydantic.BaseModel):
            sha: str
            files: list[str] = pydantic.Field(default_factory=list)
        def report():
            unset = msgspec.json.decode(b'{"sha": "a"}', type=Optional)
            return (
                msgspec.json.decode(b'{"sha": "a"}', type=Commit), [*defaults_of("attrs", Commit)],
                msgspec.json.decode(b'{"sha": "a"}', type=Struct), [*defaults_of("struct", Struct)],
                unset, unset.size is msgspec.UNSET, repr(Model(sha="a")),
                Model.model_fields["sha"].is_required(),
            )
    """,
    "a TypedDict that extends another": """
        from typing import Generic, NotRequired, Required, TypedDict, TypeVar, get_type_hints, is_typeddict
        import msgspec
        T = TypeVar("T")
        class Base(TypedDict, total=False):
            sha: Required[str]
            note: str
        class Sized(TypedDict):
            size: int
        class Commit(Base, Sized):
            files: NotRequired["list[str]"]
        class Held(TypedDict, Generic[T]):
            item: T
        class Named(Held[int]):
            name: str
        def report():
            refused = []
            for text in (b'{"sha": "a"}', b'{"size": 1}'):
                try:
                    msgspec.json.decode(text, type=Commit)
                except msgspec.ValidationError as error:
                    refused.append(str(error))
            keys = [(sorted(c.__required_keys__), sorted(c.__optional_keys__)) for c in (Commit, Named)]
            read = msgspec.json.decode(b'{"sha": "a", "size": 1, "files": ["b"]}', type=Commit)
            hints = [sorted(get_type_hints(c).items(), key=str) for c in (Commit, Named)]
            return keys, read, refused, hints, is_typeddict(Commit), Commit(sha="a", size=1)
    """,
    "functions that choose by type": """
        import functools
        @functools.singledispatch
        def told(value):
            return "any"
        @told.register
        def _(value: int):
            return "int"
        class Teller:
            @functools.singledispatchmethod
            def tell(self, value):
                return "any"
            @tell.register
            def _(self, value: str):
                return "str"
        told(3)
        def report():
            return told(True), told("a"), Teller().tell("a"), Teller().tell(1), len(told.registry)
    """,
    "a class that a function defines": """
        from dataclasses import dataclass, field
        LIMIT = 3
        def report():
            @dataclass
            class Later:
                limit: int = LIMIT
                files: "list[str]" = field(default_factory=list)
                def more(self):
                    class Inner:
                        limit = LIMIT + 1
                    return Inner.limit
            return repr(Later().files), Later().limit, Later().more()
    """,
    "bounds of a field": """
        from dataclasses import dataclass
        from typing import Annotated
        import msgspec
        Size = Annotated[int, msgspec.Meta(gt=0, description="in lines")]
        @dataclass
        class Commit:
            size: Size
            sizes: "dict[str, Size] | None" = None
        def report():
            refused = []
            for text in (b'{"size": 0}', b'{"size": 1, "sizes": {"a": 0}}'):
                try:
                    msgspec.json.decode(text, type=Commit)
                except msgspec.ValidationError as error:
                    refused.append(str(error))
            return refused, Size.__metadata__
    """,
    "a generic pydantic model with its arguments": """
        from typing import Generic, TypeVar
        import pydantic
        from headgate.serde.logical_names import logical_name
        T = TypeVar("T")
        class Inner(pydantic.BaseModel):
            n: int = 3
        class Page(pydantic.BaseModel, Generic[T]):
            item: T
        Texts = Page[str]
        def of(item: int) -> Page[Page[int]]:
            return Page[Page[int]](item=Page[int](item=item))
        def report():
            same = Page[str] is Texts, of.__annotations__["return"] is type(of(1))
            names = logical_name(Texts), logical_name(Page[Inner])
            return same, names, repr(of(3)), repr(Page[Inner](item={})), type(Texts(item="a")) is Texts
    """,
    "an enumeration with a metaclass, and what auto() makes in later ones": """
        from enum import Enum, EnumMeta, auto
        class Loose(EnumMeta):
            def __getitem__(cls, name):
                return super().__getitem__(name.upper())
        class Lower(Enum, metaclass=Loose):
            def _generate_next_value_(name, start, count, last):
                return name.lower()
        class Color(Lower):
            RED = auto()
            BLUE = auto()
            AZURE = "blue"
        def report():
            class Later(Lower):
                GREEN = auto()
            return Color["azure"] is Color["blue"], type(Color).__name__, list(Color), Later["green"].value
    """,
    "a metaclass that demands a keyword, and notes its classes": """
        from abc import ABCMeta, abstractmethod
        class Noting(ABCMeta):
            noted = []
            def __new__(metaclass, name, bases, body, *, tag):
                made = super().__new__(metaclass, name, bases, body)
                made.tag = tag
                return made
            def __init__(cls, name, bases, body, *, tag):
                super().__init__(name, bases, body)
                Noting.noted.append(tag)
            def __call__(cls, *args):
                made = super().__call__(*args)
                made.by = type(cls).__name__
                return made
        class Shape(metaclass=Noting, tag="shape"):
            @abstractmethod
            def area(self): ...
        class Square(Shape, tag="square"):
            def area(self):
                return 4
        def report():
            try:
                Shape()
            except TypeError:
                refused = True
            found = Square().area(), Square().by, Square.tag, Noting.noted
            return refused, *found, isinstance(Square(), Shape)
    """,
    "__init_subclass__ of enumerations and structs": """
        from enum import Enum
        import msgspec
        calls = []
        class Named(Enum):
            def __init_subclass__(cls, /, label, **rest):
                super().__init_subclass__(**rest)
                cls.label = label
                calls.append(label)
        class Color(Named, label="colour"):
            RED = 1
        class Record(msgspec.Struct):
            def __init_subclass__(cls, **rest):
                super().__init_subclass__(**rest)
                calls.append(cls.__name__)
        class Commit(Record):
            sha: str
        def report():
            return Color.label, Color.RED, Commit("a"), calls
    """,
    "names of nested classes": """
        from dataclasses import dataclass
        from enum import Enum
        @dataclass
        class Commit:
            class Kind(Enum):
                FIX = 1
            @dataclass
            class File:
                name: str
        def report():
            return Commit.File("a"), Commit.File.__qualname__, Commit.Kind.__qualname__
    """,
    "variables that closures share": """
        import functools
        def counted(function):
            calls = 0
            @functools.wraps(function)
            def inner(*args):
                nonlocal calls
                calls += 1
                return function(*args)
            def made():
                return calls
            inner.made = made
            return inner
        @counted
        def fact(n):
            return 1 if n < 2 else n * fact(n - 1)
        def pair():
            def even(n):
                return n == 0 or odd(n - 1)
            def odd(n):
                return n > 0 and even(n - 1)
            def never():
                return unset
            if not even:
                unset = 1
            return even, odd, never
        even, odd, never = pair()
        def report():
            before = fact.made()
            found = fact(5)
            try:
                never()
            except NameError as error:
                refused = type(error).__name__
            return found, fact.made() - before, even(4), odd(4), refused
    """,
    "a pydantic model": """
        import pydantic
        class Inner(pydantic.BaseModel):
            n: int
        class Commit(pydantic.BaseModel):
            sha: str
            inner: Inner
            size: int = 0
            @pydantic.field_validator("size")
            @classmethod
            def positive(cls, value):
                return abs(value)
        def report():
            return repr(Commit.model_validate_json('{"sha": "a", "inner": {"n": 1}, "size": -3}'))
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_shipped_is_what_the_program_defined(case: str, tmp_path: Path) -> None:
    """The other process reports what the script itself reports."""
    here, there = both(tmp_path, CASES[case])
    assert there == here
