"""Jobs on Spark: what tasks are sent, and what they answer."""
