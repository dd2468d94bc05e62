"""Snapshots as DataFrames of Spark, and savepoints made from DataFrames.

Stored state is read by way of `state/stored`. Nothing here runs or changes a job.
"""
