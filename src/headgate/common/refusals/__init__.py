"""Texts of errors in terms of the user's program: its arguments, places in its files, its stack frames.

The classes of errors stand in `common/errors.py`.
"""
