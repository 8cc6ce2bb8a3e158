"""Reviewing what would be rewritten: findings one by one, decisions that are kept, in a terminal or on a page."""
