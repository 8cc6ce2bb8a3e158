"""Bulk changes: projects are analysed, verified and given branches; what became of each is kept, whatever happens."""
