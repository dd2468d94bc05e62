"""Isolated namespaces: a job's modules under their own names, in a table of their own, in this process.

`loader` is the namespace itself, `dispatch` shows it to code that looks into `sys`, `purging` and `leaks`
clean up and check after its end. No packages are fetched or unpacked here.
"""
