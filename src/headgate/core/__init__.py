"""All decisions of drivers, job masters and subtasks: state machines without I/O, threads, clock or
randomness.

Callers pass in events and the time; methods return effects, which the code in `runtime` carries out.
"""
