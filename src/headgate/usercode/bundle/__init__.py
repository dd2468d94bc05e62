"""What a job brings: hashed on the driver, checked on the worker, unpacked once into a cache of its owner's.

::

    contents      hashes of files and folders
    program       the modules beside a program that go with it
    packing       folders as zips
    environments  where the modules of a packed environment are
    wheels        whether a wheel is for this interpreter
    artifacts     what a bundle consists of; made on the driver from what the user names
    requirements  a locked requirements file resolved to wheels, on the driver only
    unpacking     archives that are not trusted: nothing outside its folder, nothing without bound
    cache         folders by their content's hash, published at once, leased, and removed when unused
    pth           the folders of one artifact that are searched
    program_artifacts  all of it, on the machine where the program itself runs
"""
