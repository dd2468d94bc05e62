"""What a job brings: hashed on the driver, checked on the worker, unpacked once into a cache of its owner's.

Archives are not trusted: `unpacking` writes nothing outside its folder, `bounds` nothing without bound. No
code of them runs here.
"""
