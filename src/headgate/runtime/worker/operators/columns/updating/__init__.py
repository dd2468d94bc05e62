"""Operators whose results are corrected: state by key without an end, and changes that leave at marks.

Windows, which emit once and forget, never live here.
"""
