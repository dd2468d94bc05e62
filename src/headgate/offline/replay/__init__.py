"""Replays one key of one operator from a snapshot, in one process, with the operators of production.

Here lives what cuts a plan, feeds it from recorded positions and watches one operator. How operators work
and how stored state is read does not.
"""
