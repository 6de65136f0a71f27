"""Keeps the statistics and indexes of many tables fresh within a budget, as a policy says."""
