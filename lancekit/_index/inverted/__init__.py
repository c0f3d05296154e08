"""Full-text indices: tokenizers, posting lists and scores."""
