"""Keyed and operator state: the contracts, the live backends of running subtasks, and the stored forms.

Nothing here opens a checkpoint storage: callers hand in objects that read and write its files.
"""
