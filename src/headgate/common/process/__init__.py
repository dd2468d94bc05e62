"""This process and its children: clocks, threads, logs, limits, memory, processes that user code makes.

Processes of other machines and gangs are not its business.
"""
