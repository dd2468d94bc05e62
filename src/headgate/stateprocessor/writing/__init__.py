"""From a DataFrame to a savepoint: columns and rows checked, tables written by tasks of Spark, metadata last.

A running job is never touched.
"""
