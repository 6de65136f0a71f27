"""Builds the next metadata document, and partition statistics."""
