"""Batches of records: Python rows and Arrow columns, with one protocol. The operators process them."""
