"""Storages by URI: local disk, S3, HDFS, memory, with one contract. What the files mean is not known here."""
