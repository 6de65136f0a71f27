"""What we keep beside statistics files: where it is, which files it is made of, and how those are read and cleaned."""
