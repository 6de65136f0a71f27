"""
The bytes of Parquet files that need not be decoded: footers, dictionary pages, indices, and pages too large to hold.

pyarrow decodes rows. What is here finds the values of a column chunk without them, and knows no table.
"""
