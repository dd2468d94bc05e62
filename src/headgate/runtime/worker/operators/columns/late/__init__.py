"""Windows that emit more than once: late rows that are still taken, early results, late rows as side output.

What all windows have in common is in the folder above, and never here.
"""
