"""Batches of records: Python rows and Arrow columns, with one protocol.

What is done to them stands in the operators.
"""
