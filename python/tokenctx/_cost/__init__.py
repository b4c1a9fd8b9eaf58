"""Money: what a call will cost, and what it has cost."""
