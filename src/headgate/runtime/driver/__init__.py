"""The driver process of a job: opens storage and servers, runs the job master's loop until the job ends, and
answers requests of other threads and processes.

Starting the worker processes is the subject of `deploy`, never of this package.
"""
