"""What scalar indices know of a question: one module for each kind that is asked."""
