"""Packages with compiled parts: which of a job's can run in a process next to the framework's own.

Nothing is imported to find that out: `distributions` reads files, and `policy` decides.
"""
