"""Where bytes live: local folders (own, durable), object stores and memory (obstore)."""
