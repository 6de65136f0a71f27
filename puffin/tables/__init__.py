"""Tables: what a planner asks about and where statistics are committed."""
