"""Made-up dead letters in any number: what the demo of a large database, and measuring it, is done with."""
