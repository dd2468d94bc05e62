"""The bottom layer: ids, errors, options, ports (interfaces to the outside), helpers; no other is imported.

Nothing here runs a job, takes a checkpoint or imports Spark.
"""
