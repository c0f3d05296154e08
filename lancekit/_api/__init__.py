"""The public classes: `LanceDataset`, its parts, and their companions."""
