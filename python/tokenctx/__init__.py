"""Input tokens of a chat request, known before it is sent."""
