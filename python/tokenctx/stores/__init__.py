"""Known prefixes that several processes share: a store, and what keeps its failures away."""
