"""Names for places in a program, as its author knows them: `job.py:12`, or in a notebook `In[3]:2`.

IPython compiles each cell under the name of a file that does not exist. Here is the way back from that name
to the number that the notebook shows. IPython is never imported: outside of it there are no cells.
"""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from typing import Any, Final

_CELL_FILE: Final = re.compile(r"<ipython-input-[^>\s]+>|[^\s\"'(]*ipykernel_\d+[/\\][^\s\"':)]+\.py")
_FRAME: Final = re.compile(r'^(\s*)File "(.+)", line (\d+)(.*)$')


def running_shell() -> Any:
    """Return IPython's shell, of a terminal or a notebook, where this process runs one; else None."""
    module = sys.modules.get("IPython")
    find = getattr(module, "get_ipython", None)  # absent while IPython is being imported
    return None if find is None else find()


def cell_name(file: str) -> str | None:
    """Return the name that a notebook shows for the cell with this file name, such as `In[3]`; else None."""
    compiler = getattr(running_shell(), "compile", None)
    named = None if compiler is None else compiler.format_code_name(file)
    return None if named is None else str(named[1])


def short_place(file: str, line: int) -> str:
    """Return where a line of the program stands: `job.py:12`, or `In[3]:2` in a notebook.

    Example:
        >>> short_place("/home/ada/job.py", 12)
        'job.py:12'
    """
    return f"{cell_name(file) or Path(file).name}:{line}"


def with_cell_names(text: str) -> str:
    """Replace the file names of cells in a message or traceback by the names that the notebook shows.

    Lines of code are added to a traceback from another process, which cannot know what was in the cell.

    Example:
        >>> with_cell_names("int() failed (job.py:3)")
        'int() failed (job.py:3)'
    """
    if running_shell() is None or _CELL_FILE.search(text) is None:
        return text
    lines = text.split("\n")
    shown: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""]):
        frame = _FRAME.match(line)
        name = None if frame is None else cell_name(frame[2])
        if frame is None or name is None:
            shown.append(_CELL_FILE.sub(lambda file: cell_name(file[0]) or file[0], line))
            continue
        indent, file, number, rest = frame.groups()
        shown.append(f"{indent}Cell {name}, line {number}{rest}")
        code = linecache.getline(file, int(number)).strip()
        if code and not after.startswith(f"{indent}  "):
            shown.append(f"{indent}  {code}")
    return "\n".join(shown)
