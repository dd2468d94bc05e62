"""Folders of what a user brings that are searched: parts of wheels, and what files `*.pth` name.

A wheel is not installed here, so its modules stay where it keeps them. Code in `*.pth` files is never run:
Python's own `site` executes their lines that begin with `import` in every process that starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger("headgate.usercode")


def searched(folder: Path) -> tuple[str, ...]:
    r"""A folder and those below it that hold modules, too, in order of search.

    They are `NAME-VERSION.data/purelib` and `platlib` of a wheel, and what `*.pth` files in any of them add.

    What lies outside of the folder is not part of what the user brings, and is left out with a warning.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "win32" / "lib").mkdir(parents=True)
        >>> (folder / "win32.pth").write_text("# two\nwin32\nwin32/lib\nimport win32_bootstrap\n")
        45
        >>> [str(Path(entry).relative_to(folder)) for entry in searched(folder)]
        ['.', 'win32', 'win32/lib']
    """
    roots = [folder, *_parts_of_wheel(folder)]
    found = dict.fromkeys(map(str, roots))
    for root in roots:
        for file in sorted(root.glob("*.pth")):
            found.update(dict.fromkeys(_named(file, root)))
    return tuple(found)


def _parts_of_wheel(folder: Path) -> Iterator[Path]:
    for metadata in sorted(folder.glob("*.dist-info/WHEEL")):
        data = folder / f"{metadata.parent.name.removesuffix('.dist-info')}.data"
        yield from (part for part in (data / "purelib", data / "platlib") if part.is_dir())


def _named(file: Path, folder: Path) -> Iterator[str]:
    root = folder.resolve()
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith(("import ", "import\t")):
            _log.info("%s has code that Python would run at every start; it is not run: %s", file, text)
            continue
        place = folder / text
        if not place.resolve().is_relative_to(root):
            _log.warning(
                "%s names %r, outside of what the job brings, and workers have nothing there; bring that "
                "folder, too",
                file,
                text,
            )
        elif place.is_dir():
            yield str(place)
