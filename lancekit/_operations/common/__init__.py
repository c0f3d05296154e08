"""What operations share: retries, results, and new files until they are committed."""
