"""The policy file of the autopilot: its schema, its values, its meaning for a table. Only `read_policy` does I/O."""
