"""Operations on a dataset, one module each: plan, work, transaction, result."""
