"""The relational plan as pure data: types of columns, expressions, the registry of functions, nodes, passes.

Front ends write it and workers evaluate its expressions; nothing here knows streams, state or the runtime.
"""
