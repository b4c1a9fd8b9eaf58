"""Vocabularies: by name, by model, and of the user."""
