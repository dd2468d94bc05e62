"""Joins of streams by records: how a program says them, and the keyed function that runs them.

Joins of tables are in `api/tables/joins`; nothing here works on columns.
"""
