"""Code and packages that a job brings: hashed on the driver, checked and unpacked into a cache on workers.

Archives are not trusted: `unpacking` writes nothing outside its folder, `bounds` nothing without bound. No
code of them runs here.
"""
