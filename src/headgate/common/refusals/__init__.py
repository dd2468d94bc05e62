"""How a wrong call or a failure is put into words: arguments, places in the program, frames of the user.

The classes of errors stand in `common/errors.py`.
"""
