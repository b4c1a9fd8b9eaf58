"""The command `tokenctx`."""
