"""The plain Python twin of the Rust core: the oracle of every test, the baseline of every benchmark."""
