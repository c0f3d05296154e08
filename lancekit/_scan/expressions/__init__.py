"""The filter language: text to a tree to kernels."""
