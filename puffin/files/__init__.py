"""Read the live values of data files: locate columns, skip deleted rows, read the rest."""
