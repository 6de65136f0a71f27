"""The policy file of the autopilot: its schema, its values, and what it means for a table. Nothing here does I/O."""
