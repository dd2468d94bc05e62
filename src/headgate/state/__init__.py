"""Keyed and operator state: the contracts, the live backends of running subtasks, and the stored forms.

Storages and their files are handed in by the caller.
"""
