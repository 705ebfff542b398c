"""`acuse endure`: many effects, faulty providers, processes and servers that go down at random moments, until all is settled."""
