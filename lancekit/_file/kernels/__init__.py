"""Operations on plain buffers, independent of pages and files."""
