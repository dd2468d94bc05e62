"""From a type to its codec, one file for each family of types.

Older shapes are read in `evolution`, columns made in `arrow`.
"""
