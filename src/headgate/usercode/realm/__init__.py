"""The realm loader: a job's modules under their own names, in a table of their own, in this process.

::

    loader       a realm: its table of modules, its path, its builtins; opening, importing, closing
    places       what lies on whose path: the facts behind `usercode.resolution`
    finding      how an import in a realm finds its module, and in whose view it is executed
    imports      what `import` statements of a realm's code call
    context      which realm the running code belongs to
    dispatch     `sys.modules`, `sys.path` and `sys.meta_path` as the running code's realm has them
    kept         those containers stay in `sys`, whatever a program assigns there
    interpreter  everything that leans on CPython's internals, with its check at the start
    code         a realm as the runtime knows it: call, pickler, load
    pickling     functions and objects of user code as bytes
    native       each shared object once per process
    purging      what the standard library keeps of a realm, released
    leaks        who still holds a realm that has closed
"""
