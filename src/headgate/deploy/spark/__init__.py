"""Runs jobs on Spark: its session and task slots, and the gang of worker processes as a barrier stage."""
