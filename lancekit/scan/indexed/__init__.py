"""Which rows of a scan the scalar indices choose: what is asked of them, and what they answer."""
