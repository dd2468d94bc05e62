"""What people and scripts see of a running job: the line of progress, JSON lines, totals, what user code
prints.

It knows what a job reports of itself, and never decides or changes anything of the job.
"""
