"""User code through Spark: shipped by the driver, opened in Python workers next to the framework's packages.

The driver begins with `beginning_code`, a worker with `opening_code`; `orders` is what travels. Nothing here
is loaded for programs that are not isolated.
"""
