"""Adapters for frameworks, one module each; each imports its framework, and nothing imports it."""
