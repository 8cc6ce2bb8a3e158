"""Watches a training script that nobody edited. Standard library and torch only; every Python from 3.8, every torch from 2.1."""
