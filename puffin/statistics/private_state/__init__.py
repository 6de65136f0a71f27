"""The private state that we keep beside statistics files: its places, its files and their upkeep."""
