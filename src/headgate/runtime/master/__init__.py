"""The job master: carries out what the machine of a job decides, and knows the members of the gang.

It has no decisions of its own and sees no code of the workers.
"""
