"""What became of rows: between two versions, of one table or of two that have a key in common."""
