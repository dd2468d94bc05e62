"""Lineage for OpenLineage: which datasets a job reads and writes, and how its run goes.

Events are made of the plan and of the job's events, and sent by OpenLineage's own client in one thread of the
driver; nothing waits for it. What a job's output descends from, of which `checkpoint` and the sinks speak as
lineage too, is not decided here.
"""
