"""What is there because pylance has it; nothing else in lancekit needs it."""
