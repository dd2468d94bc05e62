"""Isolated namespaces, like Flink's user-code class loaders: tables of one job's modules in a process.

`loader` is the namespace itself, `dispatch` shows it to code that looks into `sys`, `purging` and `leaks`
clean up and check after its end. No packages are fetched or unpacked here.
"""
