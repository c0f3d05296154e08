"""What operations would do, planned and not done."""
