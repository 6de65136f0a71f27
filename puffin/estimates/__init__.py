"""Rows that a filter leaves, groups that a grouping makes, rows that a join has: from statistics in memory."""
