"""A job's data that driver, job master and workers share: the shipped program, its settings, reports and
queries.

Nothing here opens a socket; only the black box has a file. User code runs in pickling and unpickling.
"""
