"""The user API: environment, streams, tables, functions, state, contracts of sources, sinks and executors."""
