"""The job master: performs what the job's state machine (`core/job`) decides, and manages the workers.

It makes no decisions of its own and never imports code of the workers.
"""
