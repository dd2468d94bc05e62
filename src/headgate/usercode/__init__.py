"""User code: which programs are isolated from the framework's and other jobs' packages, and how.

For a program that is not isolated only `isolation` is loaded. Nothing here runs a job.

::

    isolation             whether a program is isolated, and why; pure but for a look at its folder
    patterns, resolution  which copy of a module a name means: the user's, the layer's, the framework's; pure
    namespaces/           isolated namespaces: a table of modules for each job, in one process
    loaders               one namespace for each job: leases, the end, and what is found after it
    leaked_modules        modules of closed namespaces that are still in memory, and the bound
    release               what a job's code wants done at its end
    exhaustion            memory that runs out while user code is loaded
    native/               packages with compiled parts: what one process can hold, and what it cannot
    bundle/               what a job brings: hashed, checked, unpacked into a cache of its owner's
    program_code          an isolated program's code in the process that runs the program
    process               a process in place of a namespace, where the interpreter allows none
    settings              the options of loaders, read for a job
    explaining            which copy a name would mean, without running anything
    errors                what can go wrong on the way
"""
