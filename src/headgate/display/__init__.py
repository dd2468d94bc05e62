"""What people and scripts see of a running job: progress line, JSON lines, totals, output of user code.

A display only gets the events that a job reports, and never decides or changes anything of the job.
"""
