"""
The bytes of Parquet files that need not be decoded: footers, dictionary pages, indices, and pages too large to hold.

pyarrow decodes rows. What is here finds the values of a column chunk without them, and knows no table. Broken bytes
raise ValueError, IndexError or what pyarrow raises, and a file that cannot be read OSError: whoever opened the file
makes errors of ours of them (`puffin.files.data_file_errors`).
"""
