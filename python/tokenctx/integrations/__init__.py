"""Other people's frameworks: one module each, which imports its framework when it is used."""
