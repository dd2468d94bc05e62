"""This process and its children: clocks, threads, logs, limits, memory, processes that user code makes.

Workers are started and watched elsewhere, in `headgate.deploy` and `headgate.runtime`.
"""
