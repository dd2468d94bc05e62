"""Tables whose rows are corrected, as a program makes them: sets of rows, duplicates, and ways out.

Operators that keep the state never live here.
"""
