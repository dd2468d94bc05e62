"""Values as Arrow columns, where nothing is lost.

Tables and files stand in `state`.
"""
