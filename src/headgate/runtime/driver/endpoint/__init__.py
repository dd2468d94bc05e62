"""The driver's HTTP endpoint, through which other processes look at a running job and control it.

Nothing of a job is decided or kept here: each request is handed to the driver's loop.
"""
