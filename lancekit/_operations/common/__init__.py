"""What operations share: retries, results, staged files, places."""
