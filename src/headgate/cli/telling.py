"""How every command but ``run`` tells what it found, or why it found nothing: to people and to machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import typer

from headgate.cli.exit_codes import Ending, ExitCode, ending_of
from headgate.display.progress_status import error_facts


class Told(NamedTuple):
    """What a command found."""

    text: str
    code: int = ExitCode.FINISHED


def tell(
    found: Callable[[], str | Told],
    as_json: bool = False,
    ending: Callable[[BaseException], Ending] = ending_of,
) -> None:
    """Print what a command finds, or the reason why it finds nothing, and end with its code.

    With `as_json` a machine reads the standard output; it gets the error there, too.
    """
    try:
        made = found()
    except (Exception, KeyboardInterrupt) as error:
        ended = ending(error)
        print(ended.text, file=sys.stderr)
        if as_json:
            print(json.dumps({"error": error_facts(error)}))
        raise typer.Exit(ended.code) from None
    told = Told(made) if isinstance(made, str) else made
    print(told.text)
    if told.code != ExitCode.FINISHED:
        raise typer.Exit(told.code)
