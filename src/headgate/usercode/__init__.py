"""User code: how a job's code and packages get to its workers, and how they are isolated from those of the
framework and of other jobs; runs no job. `bundle/` packs, checks and unpacks what a job brings. `isolation`
says which programs are isolated, and `resolution` which copy of a module a name means in one that is;
`namespaces/` and `program_process` are the two ways to isolate, `native/` decides what one process can hold.
"""
