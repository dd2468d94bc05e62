"""Runs the `headgate` command line for `python -m headgate`, also where that script is not on the PATH."""

from __future__ import annotations

from headgate.cli.main import main

if __name__ == "__main__":
    main()
