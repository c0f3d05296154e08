"""Search for the rows whose text answers best to a query."""
