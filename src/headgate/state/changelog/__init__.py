"""State as a base and a log of changes after it, over either backend.

The merge of base and log for readers stands in `state/stored`.
"""
