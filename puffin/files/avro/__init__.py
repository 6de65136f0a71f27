"""
Avro files as bytes: their blocks, read as records or as columns.

Manifests are read as records, because they hold lists and maps by column. Data files are read as columns, because they
are much larger and only their values matter.
"""
