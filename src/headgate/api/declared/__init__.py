"""State as a program declares it: keyed state, operator state, time to live, aggregates. How state is kept
and stored stands in `state`.
"""
