"""The Spark statistics job."""
