"""How a job is run on something; today that is Spark.

What runs is the runtime; nothing here knows records or state.
"""
