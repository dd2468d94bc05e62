"""Draws the tables of docs/functions.md from the registry of functions."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from headgate.relational.aggregates import AGGREGATE_ALIASES, AGGREGATES
from headgate.relational.aggregating.accumulators import AggregateRule
from headgate.relational.function_families import load_families
from headgate.relational.rules import ALIASES, RULES, Rule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "functions.md"
BEGIN, END = "<!-- Drawn by `make docs` from the registry of functions: -->", "<!-- end -->"


def row(rule: Rule) -> str:
    """One line of a family's table."""
    others = ", ".join(f"`{alias}`" for alias, name in ALIASES.items() if name == rule.name)
    fails = f"`try_{rule.name}`" if rule.fails and rule.name.isidentifier() else ""
    name = rule.name.replace("|", "\\|")
    return f"| `{name}` | {rule.takes.replace('|', chr(92) + '|')} | {others} | {fails} |"


def aggregate_row(rule: AggregateRule) -> str:
    """One line of the table of aggregates."""
    others = ", ".join(f"`{alias}`" for alias, name in AGGREGATE_ALIASES.items() if name == rule.name)
    return f"| `{rule.name}` | {rule.takes} | {others} | {'yes' if rule.ordered else ''} |"


def tables() -> str:
    """Every family with its functions, in alphabetical order; aggregates last."""
    load_families()
    lines: list[str] = []
    rules = sorted(RULES.values(), key=lambda rule: (rule.family, rule.name))
    for family, of_family in groupby(rules, key=lambda rule: rule.family):
        lines += ["", f"## {family.capitalize()}"]
        lines += ["| function | takes | other names | null in place of an error |"]
        lines += ["| --- | --- | --- | --- |", *map(row, of_family)]
    lines += ["", "## Aggregates", "| function | takes | other names | depends on the order of rows |"]
    lines += ["| --- | --- | --- | --- |", *(aggregate_row(rule) for _, rule in sorted(AGGREGATES.items()))]
    return "\n".join(lines[1:])


def render(page: str) -> str:
    """The page with the tables drawn anew."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    return f"{before}{BEGIN}\n{tables()}\n{END}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
