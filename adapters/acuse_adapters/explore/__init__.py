"""The schedule explorer: a ledger on a real PostgreSQL, and everybody who works on it, one step at a time in drawn orders."""
