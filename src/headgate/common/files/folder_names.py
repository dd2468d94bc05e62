"""Names of folders that are made of a program's own names, such as a job's: any text gives one name."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

_SEPARATING: Final = re.compile(r"[/\\%\x00-\x1f\x7f]")


def folder_name(name: str) -> str:
    r"""Return the name of one folder for a name. It is the same text unless that would lead elsewhere: what
    separates folders is percent-encoded, and so are the dots of a name that has nothing else.

    Example:
        >>> folder_name("daily sums"), folder_name("a/b"), folder_name("..")
        ('daily sums', 'a%2Fb', '%2E%2E')
    """
    if not name.strip("."):
        return name.replace(".", "%2E")
    return _SEPARATING.sub(lambda found: quote(found[0], safe=""), name)


def name_of_folder(folder: str) -> str:
    """Return the name for which :func:`folder_name` returned `folder`.

    Example:
        >>> name_of_folder("a%2Fb"), name_of_folder("%2E%2E")
        ('a/b', '..')
    """
    return unquote(folder)
