"""The cost of recorded calls: read from files, summed by DuckDB, shown."""
