"""The processes of a running job: driver, job master and workers, and the network protocol between them.

Decisions are made by pure state machines in `core`, never here. `logs.py` keeps the former name of a module.
"""
