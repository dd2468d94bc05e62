"""The election of a job's leader among drivers that share a disk.

Nothing here knows a job beyond the name of its folder, and no checkpoint is read.
"""
