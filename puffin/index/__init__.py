"""The index: which data files may hold a value of a column, kept beside the table in files of our own."""
