"""Estimates before sending, records after the answer, and what they are configured with."""
