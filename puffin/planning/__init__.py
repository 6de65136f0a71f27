"""Scan planning: which data files of a snapshot can hold rows that match a filter."""
