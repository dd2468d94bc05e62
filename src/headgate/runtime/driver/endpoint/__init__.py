"""The driver's HTTP endpoint, through which other processes observe and control a running job.

Nothing of a job is decided or kept here: each request is handed to the driver's loop.
"""
