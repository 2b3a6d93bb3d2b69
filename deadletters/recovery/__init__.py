"""Recovery runs: what is brought back, how it is gone about, and what came of every single letter."""
