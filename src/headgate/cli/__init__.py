"""The command `headgate`: runs programs, shows jobs and snapshots, with exit codes for scripts.

Logic that Python programs could use as well is in other packages.
"""
