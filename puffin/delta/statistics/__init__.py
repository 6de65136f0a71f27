"""Statistics entries of Delta tables."""
