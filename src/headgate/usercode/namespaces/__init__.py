"""The namespace loader: a job's modules under their own names, in a table of their own, in this process.

::

    loader       a namespace: its table of modules, its path, its builtins; opening, importing, closing
    closed       what takes a namespace's place at its end
    contracts    what its parts ask of a namespace
    places       which modules are on which path: the facts for `usercode.resolution`
    finding      how an import in a namespace finds its module, and in whose view it is executed
    imports      what `import` statements of a namespace's code call
    context      which namespace the running code belongs to
    dispatch     `sys.modules`, `sys.path` and `sys.meta_path` as the running code's namespace has them
    kept         those containers stay in `sys`, whatever a program assigns there
    interpreter  everything that leans on CPython's internals, with its check at the start
    code         a namespace as the runtime knows it: call, pickler, load
    pickling     functions and objects of user code as bytes
    native       each shared object once per process
    purging      what the standard library keeps of a namespace, released
    leaks        who still holds a namespace that has closed
"""
