"""What calls take: records of arguments, and the checks of single ones."""
