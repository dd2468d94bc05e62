"""The parts of a running job that act: driver, job master, workers, and what goes between them.

What is decided stands in `core`; beside these folders lies only the former name of a module.
"""
