"""The backend that keeps state in Python dicts.

Other readers of its stored form use `state/stored`.
"""
