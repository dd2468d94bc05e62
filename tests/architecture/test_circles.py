"""Import circles: files that reach each other by imports, those in functions and for type checkers included.

A circle is a strongly connected component of the import graph. Python loads most of them without an error
where some imports hide in functions, yet no file of a circle can be read, tested or moved without the others.
`circles.txt` lists those that there are; it may only shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from source_tree import Module, imports, source

FROZEN = Path(__file__).with_name("circles.txt")

Graph = Mapping[str, frozenset[str]]


def import_graph(modules: tuple[Module, ...]) -> Graph:
    """File -> files that it imports, by dotted names below the package."""
    known = {dotted(module): module for module in modules}

    def file_of(target: str) -> str:
        """The file that a dotted target lies in: `a.b.name` is in `a.b`, unless it is a file of its own."""
        name = target.removeprefix("headgate.")
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    return {
        name: frozenset(
            file_of(item.target) for item in imports(module) if item.target.startswith("headgate.")
        )
        - {name, ""}
        for name, module in known.items()
    }


def dotted(module: Module) -> str:
    """The file's dotted name below the package; a package is called as its folder."""
    return module.inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def circles(graph: Graph) -> set[frozenset[str]]:
    """The strongly connected components of two files or more (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_files: list[str] = []
    found: set[frozenset[str]] = set()
    for root in graph:
        if root in number:
            continue
        path = [(root, iter(sorted(graph[root])))]
        number[root] = lowest[root] = len(number)
        open_files.append(root)
        while path:
            name, targets = path[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    open_files.append(target)
                    path.append((target, iter(sorted(graph[target]))))
                    break
                if target in open_files:
                    lowest[name] = min(lowest[name], number[target])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    place = open_files.index(name)
                    component = frozenset(open_files[place:])
                    del open_files[place:]
                    found |= {component} if len(component) > 1 else set()
    return found


def frozen() -> set[frozenset[str]]:
    """The circles that are allowed still."""
    lines = FROZEN.read_text().splitlines()
    return {frozenset(line.split()) for line in lines if line.strip() and line[0] != "#"}


def test_no_circle_is_new_or_grows() -> None:
    """Every circle lies within one that is listed."""
    new = [
        sorted(circle)
        for circle in circles(import_graph(source()))
        if not any(circle <= one for one in frozen())
    ]
    assert new == [], "these files import each other; let one of each circle not know the others"


def test_the_list_is_no_longer_than_needed() -> None:
    """A listed circle that became smaller, or is gone, is listed so."""
    assert frozen() - circles(import_graph(source())) == set(), f"shorten {FROZEN.name}"


def test_circles_are_found() -> None:
    """Two circles that touch are one, and what only leads into a circle or out of it is in none."""
    lines = ["in a", "a b", "b c d", "c a", "d b", "x y", "y x out", "out"]
    graph = {line.split()[0]: frozenset(line.split()[1:]) for line in lines}
    assert circles(graph) == {frozenset("abcd"), frozenset("xy")}


def test_hidden_imports_count() -> None:
    """An import in a function or for type checkers is an import."""
    assert any(not item.at_import for module in source() for item in imports(module))
    graph = import_graph(source())
    assert "common.keys.keygroups_vectorised" in graph["common.keys.keygroups"]
