"""Work on plain buffers, which knows neither pages nor files."""
