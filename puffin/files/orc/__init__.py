"""
The bytes of ORC files that pyarrow does not give as they are: encryption, and timestamps that nanoseconds do not reach.

Knows no table.
"""
