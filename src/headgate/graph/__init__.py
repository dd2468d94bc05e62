"""The program as data: logical nodes, passes, physical plan, explain(). It runs nothing and reads no file."""
