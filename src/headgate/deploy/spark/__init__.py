"""Runs jobs on Spark: the session, the slots, the gang as a barrier stage, and its workers."""
