"""User code: which programs are isolated from the framework's and other jobs' packages, and how; runs no job.

For a program that is not isolated only `isolation` is loaded. `resolution` decides which copy of a module
a name means; `namespaces/` and `program_process` are the two ways to isolate, `native/` decides what one
process can hold.
"""
