"""Manifests, the data files of a snapshot with their deletes, and what changed between snapshots."""
