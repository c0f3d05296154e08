"""Creation, removal, upkeep and description of indices."""
