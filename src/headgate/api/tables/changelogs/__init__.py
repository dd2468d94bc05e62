"""Tables whose rows are corrected, as a program makes them: sets of rows, duplicates, ways out, bounds of state.

Operators that keep the state never live here.
"""
