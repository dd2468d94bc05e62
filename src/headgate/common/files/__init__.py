"""Durable files: OS functions bound at import, atomic writes, file headers, permissions, checked paths.

What the files contain is decided by the packages that write them.
"""
