"""What everybody may use: ids, errors, ports, and rooms of small helpers; it imports nothing else of ours.

Nothing here knows of jobs, checkpoints or Spark.
"""
