"""The ledger in memory: what the functions in the database do, for one process and its own clock. A test compares the two."""
