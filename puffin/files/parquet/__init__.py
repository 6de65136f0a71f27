"""
Parquet data and delete files: footers, dictionary pages, indices, and pages too large to hold.

pyarrow decodes rows; this package finds the values of a column chunk without them where it can. Broken bytes raise
ValueError, IndexError or pyarrow's errors, and unreadable files OSError; `puffin.files.data_file_errors` turns these
into ours.
"""
