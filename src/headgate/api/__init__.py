"""The user API: environment, streams, functions, state, connectors. It builds the graph and runs nothing."""
