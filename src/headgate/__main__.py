"""`python -m headgate`: the command, where its script is not on the path."""

from __future__ import annotations

from headgate.cli.main import main

if __name__ == "__main__":
    main()
