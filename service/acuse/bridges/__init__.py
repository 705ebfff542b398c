"""Bridges to frameworks that a host uses: each small, optional, and imported only by who asks for it by name."""
