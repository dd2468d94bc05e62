"""The bottom layer: ids, errors, ports and small helpers for all other packages; it imports none of them.

Nothing here knows of jobs, checkpoints or Spark.
"""
