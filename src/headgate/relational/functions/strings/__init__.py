"""The rules of SQL functions of text, a module for each subject; a letter is a code point, as in Spark.

No other collation than that of bytes is known here.
"""
