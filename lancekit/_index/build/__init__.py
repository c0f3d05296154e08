"""Writing indices: from values and the rows that hold them to files, a module for each kind."""
