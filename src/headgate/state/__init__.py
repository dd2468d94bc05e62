"""Keyed and operator state: contracts, live backends, and what they store.

Files and storages are handed in.
"""
