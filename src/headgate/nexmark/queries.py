"""Nexmark's queries as the programs in `programs/` have them, which is where each is written.

That folder is `examples/nexmark`, by a link: a program there is read as one's own would be, and is part of
the installed package. A program ``q5.py`` has a function ``q5``, whose parameters are called as the tables it
needs, and may have a function ``write``, where the result does not simply go to Parquet files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from headgate.api.environment import Environment
from headgate.api.tables.column_table import Table

_OUT_OF_ORDERNESS: Final = "4s"
_NAMES: Final = tuple([f"q{number}" for number in range(24)] + [f"cep{number}" for number in range(4)])


class Inputs:
    """The tables of a dataset, whose event time is `dateTime`; `folder` has one of Parquet files for each."""

    def __init__(self, env: Environment, folder: Path) -> None:
        self._env, self._folder = env, folder

    def table(self, name: str) -> Table[Any]:
        """Return the table in a folder, such as "bids"; its event time may be 4 s out of order."""
        table = self._env.table(self._folder / name, uid=name)
        return table.with_watermark("dateTime", _OUT_OF_ORDERNESS)


class Query:
    """A query of Nexmark, by its name; called with the inputs it returns the result as a table."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, inputs: Inputs) -> Table[Any]:
        """Return the result as a table that is part of the inputs' environment; nothing is computed yet."""
        table: Table[Any] = self._function(**{name: inputs.table(name) for name in self.tables})
        return table

    @property
    def tables(self) -> list[str]:
        """The names of the tables that the query reads."""
        return list(inspect.signature(self._function).parameters)

    def write(self, inputs: Inputs, folder: Path) -> None:
        """Add a sink of the result into `folder`: Parquet files, or as the query's program has it."""
        result, write = self(inputs), getattr(self._program, "write", None)
        if write is None:
            rows = result.to_changes() if result.schema.updating else result.to_stream()
            rows.write_parquet(folder, uid="out")
        else:
            write(result, folder)

    @property
    def _program(self) -> Any:
        return import_module(f"headgate.nexmark.programs.{self._name}")

    @property
    def _function(self) -> Callable[..., Table[Any]]:
        function: Callable[..., Table[Any]] = getattr(self._program, self._name)
        return function


QUERIES: Final[Mapping[str, Query]] = {name: Query(name) for name in _NAMES}
"""Name of a query -> the query, which is called with the inputs."""
