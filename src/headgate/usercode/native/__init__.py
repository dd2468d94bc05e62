"""Packages with compiled parts: what a process can hold next to the framework's own, and what it cannot.

::

    distributions  what lies on a path: name, version, contents, compiled files
    elf            the name by which the dynamic linker knows a shared library
    policy         the framework's copy, the dependency layer, or a process of its own; pure
"""
