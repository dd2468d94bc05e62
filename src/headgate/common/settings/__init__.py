"""The configuration: the list of all options, and the settings of one job with the place that each came from.

What an option does is implemented in the package that reads it.
"""
