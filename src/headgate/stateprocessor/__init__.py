"""Snapshots as DataFrames of Spark, and savepoints made from DataFrames.

Stored state is read by `state/stored`; no job runs here.
"""
