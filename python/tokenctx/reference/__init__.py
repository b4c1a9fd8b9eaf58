"""The plain Python twin of the core: oracle of every test, baseline of every benchmark."""
