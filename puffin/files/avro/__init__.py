"""
Avro files as bytes: their blocks, and what stands in them as records or as columns. Knows no table.

Manifests are read as records, since they are lists and maps by column; data files as columns, since they are many
times larger and only values are wanted of them.
"""
