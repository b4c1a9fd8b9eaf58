"""The targets of dev.py and what they are made of."""
