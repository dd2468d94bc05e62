"""What a job brings: hashed on the driver, checked on the worker, unpacked once into a cache of its owner's.

::

    contents      hashes of files and folders
    artifacts     what a bundle consists of; made on the driver from what the user names
    requirements  a locked requirements file resolved to wheels, on the driver only
    unpacking     archives that are not trusted: nothing outside its folder, nothing without bound
    cache         folders by their content's hash, published at once, leased, and removed when unused
"""
