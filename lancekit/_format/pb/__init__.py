"""Generated protobuf classes; regenerate with `make proto`."""
