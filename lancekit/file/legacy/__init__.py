"""Fields of files of 0.1, the format before 2.0, which are read and never written."""
