"""How values become bytes, and whether stored bytes can still be read: the contracts, and serializers that
are stored by name.

No file and no job; the names of modules that stored bytes hold stay where they are.
"""
