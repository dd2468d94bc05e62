"""A job in transit: the shipped program, its settings, and what driver, job master and workers all need to
know of it.

Nothing here opens a file or a socket, or runs user code.
"""
