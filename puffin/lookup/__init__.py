"""The planner's lookup: NDV from metadata alone."""
