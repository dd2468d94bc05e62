"""The statements of a database sink, for PostgreSQL and SQLite alike."""

# ruff: noqa: S608  # names of tables are the program's own, values are parameters

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headgate.common.errors import UsageError

UPSERT: Final = 1
DELETE: Final = 0
"""What a staged row does."""

_TOKEN: Final = "headgate_token"  # noqa: S105  # a column, no secret
_OP: Final = "headgate_op"


class Target(NamedTuple):
    """A table of a database, as statements name it, with the columns that are its key."""

    table: str
    keys: tuple[str, ...]

    @property
    def staging(self) -> str:
        """The table of rows that are written and not committed yet."""
        return f"{self.table}_headgate_staging"

    @property
    def holds(self) -> str:
        """The table of tokens whose rows savepoints hold."""
        return f"{self.table}_headgate_holds"

    def creation(self) -> list[str]:
        empty = (
            f"SELECT t.*, CAST('' AS VARCHAR(500)) AS {_TOKEN}, 0 AS {_OP} FROM {self.table} t WHERE 1 = 0"
        )
        return [
            f"CREATE TABLE IF NOT EXISTS {self.staging} AS {empty}",
            f"CREATE TABLE IF NOT EXISTS {self.holds} (token VARCHAR(500), savepoint VARCHAR(500))",
        ]

    def staged(self, names: Sequence[str], place: str) -> str:
        columns = [*map(quoted, names), _TOKEN, _OP]
        return (
            f"INSERT INTO {self.staging} ({', '.join(columns)}) VALUES ({', '.join([place] * len(columns))})"
        )

    def copied(self, names: Sequence[str]) -> str:
        return f"COPY {self.staging} ({', '.join([*map(quoted, names), _TOKEN, _OP])}) FROM STDIN"

    def deletion(self, tokens: int, place: str) -> str:
        same = " AND ".join(f"s.{quoted(key)} = {self.table}.{quoted(key)}" for key in self.keys)
        which = f"s.{_OP} = {DELETE} AND s.{_TOKEN} IN ({', '.join([place] * tokens)})"
        return (
            f"DELETE FROM {self.table} WHERE EXISTS (SELECT 1 FROM {self.staging} s WHERE {which} AND {same})"
        )

    def upsert(self, names: Sequence[str], tokens: int, place: str) -> str:
        columns = ", ".join(map(quoted, names))
        values = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in self.keys
        )
        done = f"UPDATE SET {values}" if values else "NOTHING"
        which = f"{_OP} = {UPSERT} AND {_TOKEN} IN ({', '.join([place] * tokens)})"
        return (
            f"INSERT INTO {self.table} ({columns}) SELECT {columns} FROM {self.staging} WHERE {which} "
            f"ON CONFLICT ({', '.join(map(quoted, self.keys))}) DO {done}"
        )

    def removal(self, tokens: int, place: str) -> str:
        return f"DELETE FROM {self.staging} WHERE {_TOKEN} IN ({', '.join([place] * tokens)})"

    def leftovers(self, place: str) -> str:
        return (
            f"SELECT DISTINCT {_TOKEN} FROM {self.staging} WHERE {_TOKEN} LIKE {place} "
            f"AND {_TOKEN} NOT IN (SELECT token FROM {self.holds})"
        )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def place_of(connection: Any) -> str:
    """Return how the driver of a connection writes a parameter. UsageError: not by its place."""
    import sys

    package = sys.modules[type(connection).__module__.partition(".")[0]]
    style = getattr(package, "paramstyle", None) or getattr(
        sys.modules.get(package.__name__.lstrip("_")), "paramstyle", None
    )
    found = {"qmark": "?", "format": "%s", "pyformat": "%s"}.get(str(style))
    if found is None:
        raise UsageError(
            f"the database's driver {package.__name__} has the paramstyle {style!r}; expected one with "
            "qmark, format or pyformat, such as psycopg or sqlite3"
        )
    return found
