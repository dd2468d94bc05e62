"""User code through Spark: shipped by the driver, opened in Python workers next to the framework's packages.

On the driver::

    beginning     a job of an isolated program begins: the only file here that others in `deploy/spark` call
    orders        what travels: plain values
    jobs          the jobs of one application that bring code: begun, live, ended; bounds on what they share
    planning      where each package runs: with the framework's, in a layer, in workers of the job's own
    shipping      files given to Spark, once for each application
    environments  workers of a job's own: variables that Spark keeps pools of workers by

In a worker::

    tasks         the function that Spark runs
    opening       this process: its cache, its namespaces, its layers, and the jobs that have ended
    arriving      files that Spark has brought, checked and unpacked
    own_process   the job's packages in front of the framework's, in a worker of the job's own
    layers        packages that stay after their jobs

Nothing here is loaded for programs that are not isolated.
"""
