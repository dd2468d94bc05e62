"""Deploys jobs on a cluster; today that is Spark.

The runtime runs the job; nothing here knows records or state.
"""
