"""The next metadata document, and partition statistics."""
