"""
The parts of ORC files that pyarrow does not read: encryption, and timestamps beyond the range of nanoseconds.

Independent of tables.
"""
