"""Packages with compiled parts: what a process can hold next to the framework's own, and what it cannot.

Nothing is imported to find that out: `distributions` reads files, and `policy` decides.
"""
