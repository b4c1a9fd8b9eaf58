"""The tables of facts, JSON files with their sources, and their readers."""
