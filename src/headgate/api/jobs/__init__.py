"""From a program to its job and back: running program files, capturing their plan, handles of jobs that run.
How a job is run stands below `deploy` and `runtime`.
"""
