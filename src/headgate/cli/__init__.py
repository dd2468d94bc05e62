"""The command `headgate`: runs programs, shows jobs and snapshots, with exit codes for scripts.

It has no logic that a Python program could use as well.
"""
