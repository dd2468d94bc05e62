"""The life of one job as a pure state machine: registration, deployment, restart, rescale, the end.

It takes events and the time, and returns effects. Connections, files, plans, threads and texts for people
never live here; `headgate.runtime` carries the effects out and reports their results as events.
"""
