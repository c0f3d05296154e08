"""From an operation to a committed version: conflict rules, rebase, the next manifest, the protocol."""
