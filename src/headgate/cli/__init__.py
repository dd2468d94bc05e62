"""The command `headgate`: runs programs, shows jobs and snapshots, with exit codes for scripts.

No logic that a Python program could want as well.
"""
