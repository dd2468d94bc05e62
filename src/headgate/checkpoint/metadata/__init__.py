"""The file `_metadata` of a checkpoint: its format versions, written and read.

Files of state are not opened here.
"""
