"""User code stays the user's: loaded apart from the framework's and from other jobs' packages.

::

    patterns, resolution  which copy of a module a name means: the user's, the layer's, the framework's; pure
    realm/                the loader: a table of modules of its own for each job, in one process
    loaders               one realm for each job: leases, the end, and what is found behind it
    leftovers             what loaders that have closed have left, and the bound
    release               what a job's code wants done at its end
    exhaustion            memory that runs out while user code is loaded
    native/               packages with compiled parts: what one process can hold, and what it cannot
    bundle/               what a job brings: hashed, checked, unpacked into a cache of its owner's
    brought               a program's own code in the process that runs the program
    process_tier          processes in place of realms, where the interpreter allows none
    settings              the options of loaders, read for a job
    explaining            which copy a name would mean, told without running anything
    errors                what can go wrong on the way
"""
