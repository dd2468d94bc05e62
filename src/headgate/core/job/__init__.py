"""The life of one job as a pure machine: registration, deployment, restart, rescale, the end.

Here are decisions: events in, effects out, time as an argument. Links, files, plans, threads and sentences
for people never live here; `headgate.runtime` carries the effects out and reports what came of them.
"""
