"""Declarations of state in programs: keyed and operator state, time to live, aggregates; see also `state`."""
