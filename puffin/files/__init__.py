"""The live values of data files: where a column stands in one, which of its rows are deleted, and reading the rest."""
