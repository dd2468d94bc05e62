"""Patterns as a program declares them, over tables and over keyed streams.

The machine that finds matches is `relational.patterns`.
"""
