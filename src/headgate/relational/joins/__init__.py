"""Joins in the plan: by equal columns, by event time, with tables that are loaded, and keys that equal
themselves in their own way.
"""
