"""Passes over plans of tables: pure functions of a plan, or of its steps, that return what runs in its place.

A pass decides by the plan alone. Nodes and expressions are defined one folder up; workers run what comes out.
"""
