"""Joins in the plan beyond equal columns: by event time, tables that are loaded, and keys that
equal themselves in their own way.
"""
