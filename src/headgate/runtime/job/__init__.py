"""A job's data that driver, job master and workers share: the shipped program, its settings, reports and
queries.

Nothing here opens a socket or runs user code, and only the black box opens a file.
"""
