"""Mixed messages, drained by workers of which one is killed again and again: everything must add up at the end."""
