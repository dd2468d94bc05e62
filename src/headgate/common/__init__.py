"""The bottom layer: ids, errors, ports (interfaces to the outside), helpers; it imports no other package.

Nothing here knows of jobs, checkpoints or Spark.
"""
