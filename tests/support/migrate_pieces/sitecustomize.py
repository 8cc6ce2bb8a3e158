"""Puts `stand_in_piece` in the place of what analyses projects, in a process that has this folder on its path."""

import sys

import stand_in_piece

sys.modules["perfmod.migrate.analysis"] = stand_in_piece
