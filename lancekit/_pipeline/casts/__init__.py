"""Values of one type as another: planned, checked, done."""
