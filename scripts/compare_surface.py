"""Compares what users and readers meet in two checkouts, and prints what is lost.

    scripts/compare_surface.py OLD NEW [--explained scripts/surface_explained.txt] [--added]

Compared are the commands and options of `headgate`, the names that `headgate`, `headgate.testing`,
`headgate.testing.suites` and `headgate.spark` make public with their attributes and parameters, the keys
of the configuration with their defaults, the pages of `docs`, and the rows of the semantics that tests and
pages name. Each list is taken by the Python that runs this, with the package of the checkout.

An explained loss stands in a file: a line of the list, a tab, and why. The exit code is 1 if anything is lost
without an explanation.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

Surface = Mapping[str, list[str]]

COLLECT: Final = r"""
import enum, importlib, inspect, json, sys

def parameters(what):
    try:
        signature = inspect.signature(what)
    except (TypeError, ValueError):
        return
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        default = parameter.default
        required = default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD
        )
        yield f"{parameter.name}{' (required)' if required else ''}"

def members(where, what):
    yield where
    if inspect.isclass(what):
        if not issubclass(what, enum.Enum):
            yield from (f"{where}({each})" for each in parameters(what))
        for name in dir(what):
            if name.startswith("_") or hasattr(object, name) or (
                issubclass(what, BaseException) and hasattr(BaseException, name)
            ):
                continue
            member = inspect.getattr_static(what, name)
            yield f"{where}.{name}"
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            if inspect.isfunction(member):
                yield from (f"{where}.{name}({each})" for each in parameters(member))
        fields = getattr(what, "__dataclass_fields__", None) or {}
        yield from (f"{where}.{name}" for name in fields if not name.startswith("_"))
    elif callable(what):
        yield from (f"{where}({each})" for each in parameters(what))

def public():
    for name in ("headgate", "headgate.testing", "headgate.testing.suites", "headgate.spark"):
        module = importlib.import_module(name)
        listed = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for each in listed:
            yield from members(f"{name}.{each}", getattr(module, each))

def commands():
    import typer
    from headgate.cli.main import app

    def walk(command, path):
        yield path
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            names = [*parameter.opts, *parameter.secondary_opts]
            shown = names if parameter.param_type_name == "option" else [parameter.metavar or parameter.name]
            yield from (f"{path} {name}" for name in shown)
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")

    root = typer.main.get_command(app)
    yield from walk(root, "headgate")

def keys():
    for place in ("headgate.common.settings.options", "headgate.common.options"):
        try:
            options = importlib.import_module(place).OPTIONS
            break
        except ImportError:
            continue
    for option in options.values():
        yield f"{option.key} = {option.kind.format(option.default)}"
        yield f"{option.spark_key}"

print(json.dumps({
    "commands and options": sorted(set(commands())),
    "public names": sorted(set(public())),
    "configuration": sorted(set(keys())),
}))
"""

ROW: Final = re.compile(r"\b(?:s?[A-Z]\d{1,2})\b")
NAMED: Final = re.compile(r"test_(s?[a-z])(\d{1,2})_")
FIRST_CELL: Final = re.compile(r"^\| ((?:s?[A-Z]\d{1,2}(?:, | and | to )?)+)\b", re.MULTILINE)


def collected(checkout: Path) -> Surface:
    """All lists of one checkout."""
    path = os.pathsep.join([str(checkout / "src"), str(checkout)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COLLECT],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{checkout}: its lists cannot be taken:\n{done.stderr}")
    lists: dict[str, list[str]] = json.loads(done.stdout)
    lists["pages"] = sorted(pages(checkout))
    lists["rows of the semantics"] = sorted(set(rows(checkout)))
    return lists


def pages(checkout: Path) -> Iterator[str]:
    """What stands in `docs`, but for records of proofs, and what stands beside it for readers."""
    for path in [*(checkout / "docs").rglob("*"), *checkout.glob("*.md")]:
        if path.suffix in {".md", ".svg", ".txt"}:
            yield path.relative_to(checkout).as_posix()


def rows(checkout: Path) -> Iterator[str]:
    """Ids of semantic rows and of scenarios, in docstrings and names of tests, and in tables of pages."""
    for path in sorted((checkout / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield from ROW.findall(ast.get_docstring(node) or "")
            if isinstance(node, ast.FunctionDef) and (named := NAMED.match(node.name)):
                letters, number = named.groups()
                yield f"{letters[:-1]}{letters[-1].upper()}{number}"
    for page in (checkout / "docs").rglob("*.md"):
        for cell in FIRST_CELL.findall(page.read_text(encoding="utf-8")):
            yield from ROW.findall(cell)


def explained(path: Path | None) -> dict[str, str]:
    """Line of a list -> why it may be lost."""
    if path is None:
        return {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {entry: why for entry, _, why in (line.partition("\t") for line in lines) if why}


def demanded(before: Sequence[str], added: Sequence[str]) -> list[str]:
    """What must be given now in a call that did without it: as bad as a loss."""
    known = set(before)
    return [each for each in added if each.endswith(" (required))") and each.partition("(")[0] in known]


def compare(old: Surface, new: Surface, reasons: Mapping[str, str], *, added: bool) -> bool:
    """Print what differs; True when nothing is lost but what is explained."""
    lost_at_all = False
    for name, before in old.items():
        now = set(new[name])
        more = [entry for entry in new[name] if entry not in set(before)]
        lost = [entry for entry in before if entry not in now] + demanded(before, more)
        print(f"{name}: {len(before)} before, {len(now)} now, {len(lost)} lost, {len(more)} new")
        for entry in lost:
            why = reasons.get(entry)
            lost_at_all |= why is None
            print(f"  {'lost' if why is None else 'explained'}: {entry}{'' if why is None else f' ({why})'}")
        for entry in more if added else ():
            print(f"  new: {entry}")
    return not lost_at_all


def main(arguments: Sequence[str]) -> int:
    """Compare; 0 when nothing is lost but what is explained."""
    parser = argparse.ArgumentParser(description="What users meet in two checkouts, and what is lost.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--explained", type=Path, help="file of losses with their reasons")
    parser.add_argument("--added", action="store_true", help="print what is new, too")
    options = parser.parse_args(arguments)
    old, new = (collected(path.resolve()) for path in (options.old, options.new))
    return 0 if compare(old, new, explained(options.explained), added=options.added) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
