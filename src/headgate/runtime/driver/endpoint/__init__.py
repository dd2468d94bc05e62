"""The driver's HTTP endpoint, through which other processes observe and control a running job.

Nothing of a job is decided here: requests go to the driver's loop, and outcomes wait here to be fetched.
"""
