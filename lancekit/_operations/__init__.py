"""One module per thing a user does to a dataset: plan, work, transaction, result."""
