"""The program as data: logical nodes, passes, the physical plan, explain(). Nothing is run and no file is
read.
"""
