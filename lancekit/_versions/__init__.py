"""Reading versions: lines of them, snapshots, listings, references."""
