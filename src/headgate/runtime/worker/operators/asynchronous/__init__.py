"""Asynchronous functions: many calls at once in an event loop of the subtask's own.

`core.async_requests` decides; here are the operator that carries it out, what is awaited for each call, and
the thread of the event loop. What runs in the worker's loop, one record after the other, is never here.
"""
