"""
The parts of Parquet files below rows: footers, dictionary pages, indices, and pages too large to hold.

pyarrow decodes rows; this package finds the values of a column chunk without them. It is independent of tables. Broken
bytes raise ValueError, IndexError or pyarrow's errors, and unreadable files OSError; `puffin.files.data_file_errors`
turns these into ours.
"""
