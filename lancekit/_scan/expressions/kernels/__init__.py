"""The functions and operators of the filter language, on Arrow arrays."""
