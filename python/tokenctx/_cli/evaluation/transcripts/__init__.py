"""Transcripts that agents keep of their sessions, one module a form, as recorded steps."""
