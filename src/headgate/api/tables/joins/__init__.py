"""Plans of joins, checked as the program calls them: by windows, without windows, by event time, with
a table that does not change. Never the operators that run them, which are in
`runtime/worker/operators/columns/`.
"""
