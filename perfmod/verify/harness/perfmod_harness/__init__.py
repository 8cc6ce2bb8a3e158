"""Watches a training script that nobody edited.

Needs the standard library and torch only: Python from 3.8, torch from 2.1.
"""
