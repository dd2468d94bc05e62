"""`headgate example`: puts a file of real events beside the first program of a newcomer."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from headgate.cli.telling import tell
from headgate.common.errors import UsageError

_COMMITS: Final = (
    "4,668 commits of one open-source project in the order in which they arrived; each line is a JSON object "
    "with repo, commit, author, author_ms, commit_ms (milliseconds since 1970), files, insertions, deletions"
)
EXAMPLES: Final = {"commits": ("commits.jsonl.gz", _COMMITS)}
"""Name of an example: its file, and what is in it."""


def example(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(EXAMPLES)}.")],
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where it is put.")] = Path(),
) -> None:
    """Put a file of example data into a folder, the current one if none is named."""
    tell(lambda: put_example(name, folder))


def put_example(name: str, folder: Path) -> str:
    """Write the file of an example."""
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}; expected one of: {', '.join(EXAMPLES)}")
    file, what = EXAMPLES[name]
    data = (resources.files("headgate.cli") / "examples" / file).read_bytes()
    target = folder / file
    if target.exists() and target.read_bytes() != data:
        raise UsageError(f"{target} exists and is another file; remove it, or name another folder")
    try:
        target.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written ({error.strerror}); name a folder that exists"
        ) from None
    return f"{target}: {what}"
