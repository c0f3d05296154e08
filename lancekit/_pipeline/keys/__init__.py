"""Keys of rows: hashed, sorted, looked up."""
