"""The provider's prompt cache: what a call will read from it and write to it."""
