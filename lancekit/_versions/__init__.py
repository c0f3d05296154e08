"""Reading of versions: branch locations, snapshots, listings, references."""
