"""The parts of a running job that act: driver, job master, workers, and what goes between them.

What is decided stands in `core`; no file lies beside these folders.
"""
