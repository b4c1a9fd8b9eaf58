"""What a provider reports of a call: one normal form, read from answers and streams, scaled."""
