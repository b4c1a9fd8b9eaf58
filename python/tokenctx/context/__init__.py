"""The context window of a conversation: how full it is, with what, and what to do about it."""
