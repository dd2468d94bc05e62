"""From a snapshot to a DataFrame: which columns, which files, and what each task of Spark reads.

Nothing is written here.
"""
