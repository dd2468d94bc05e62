"""Quarantines on disk: what records lie there, which of them are dealt with, and a source that reads them.

They are written by the sink of JSON files (`api/quarantines.py`), and by nothing here.
"""
