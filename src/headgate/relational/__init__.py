"""The relational plan: columns' types, expressions, the registry of functions, plan nodes and passes; pure data.

Front ends write it and workers evaluate its expressions; nothing here knows streams, state or the runtime.
"""
