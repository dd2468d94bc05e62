"""`python -m bench peers`: Headgate beside other engines, on the same files in one run.

What is asked of each engine is in `queries`, how each is started in `systems`; the engines' own programs are
in `bench/peers`, and read what they need from a file that `systems` writes.
"""
