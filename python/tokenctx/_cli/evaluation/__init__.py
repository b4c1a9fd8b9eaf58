"""Recorded calls: read, replayed and scored."""
