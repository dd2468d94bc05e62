"""Windows of rows: which windows a record belongs to, when they emit, and what they keep. Windows of columns
are in `relational`; no result is computed batch by batch here.
"""
