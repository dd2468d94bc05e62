"""Finding executors and connectors by name."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from headgate.common import registry
from headgate.common.errors import InternalError, UsageError
from headgate.common.registry import BUILT_IN, Kind, load, names


def test_a_built_in_is_imported_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The factory comes from the module that the table names."""
    monkeypatch.setitem(BUILT_IN, Kind.EXECUTOR, {"x": "fractions:Fraction"})
    assert load(Kind.EXECUTOR, "x")(1, 2) == 0.5


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """A misspelt name is answered with the one that was probably meant."""
    with pytest.raises(UsageError, match="no connector 'jsonsource'; did you mean 'json_source'"):
        load(Kind.CONNECTOR, "jsonsource")


@pytest.mark.parametrize(
    ("package", "extra"),
    [("polars", "columns"), ("rocksdict", "rocksdb"), ("confluent_kafka", "kafka"), ("kazoo", "zookeeper")],
)
def test_a_missing_optional_package_names_the_command(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str
) -> None:
    """Who needs a package that is not installed is told the command that installs it."""
    monkeypatch.setitem(BUILT_IN, Kind.CONNECTOR, {"x": f"{package}:Thing"})
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=f"package {package}, .* run: pip install 'headgate\\[{extra}\\]'"):
        load(Kind.CONNECTOR, "x")


def test_another_missing_module_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that nobody can install by an extra is named with the original reason."""
    monkeypatch.setitem(BUILT_IN, Kind.CONNECTOR, {"x": "no_such_module_anywhere:Thing"})
    with pytest.raises(UsageError, match="No module named 'no_such_module_anywhere'"):
        load(Kind.CONNECTOR, "x")


def test_a_wrong_attribute_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that points to nothing is an internal error."""
    monkeypatch.setitem(BUILT_IN, Kind.CONNECTOR, {"x": "fractions:Nothing"})
    with pytest.raises(InternalError, match="fractions:Nothing"):
        load(Kind.CONNECTOR, "x")


def test_entry_points_add_names_and_built_ins_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other distributions add names; they cannot take over one of ours."""
    added = [
        EntryPoint("mine", "fractions:Fraction", Kind.EXECUTOR.group),
        EntryPoint("spark", "fractions:Fraction", Kind.EXECUTOR.group),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in added if p.group == group])
    monkeypatch.setitem(BUILT_IN, Kind.EXECUTOR, {"spark": "decimal:Decimal"})
    assert load(Kind.EXECUTOR, "mine").__name__ == "Fraction"
    assert load(Kind.EXECUTOR, "spark").__name__ == "Decimal"
    assert names(Kind.EXECUTOR) == ["mine", "spark"]


def test_a_name_claimed_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two distributions with one name are both named."""
    claims = [
        EntryPoint("x", target, Kind.EXECUTOR.group) for target in ("fractions:Fraction", "decimal:Decimal")
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: claims)
    with pytest.raises(UsageError, match="claimed by decimal:Decimal and fractions:Fraction"):
        load(Kind.EXECUTOR, "x")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in Kind for name in BUILT_IN[kind] if kind is Kind.CONNECTOR]
)
def test_every_built_in_connector_is_where_the_table_says(kind: Kind, name: str) -> None:
    """The table of connectors names modules and attributes that exist."""
    assert callable(load(kind, name))


@pytest.mark.parametrize("name", sorted(BUILT_IN[Kind.EXECUTOR]))
def test_every_built_in_executor_is_where_the_table_says(name: str) -> None:
    """The table of executors names modules and attributes that exist."""
    assert callable(load(Kind.EXECUTOR, name))
