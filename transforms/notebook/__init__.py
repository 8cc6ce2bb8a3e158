"""Jupyter notebooks, read as Python and written back cell by cell.

`document` finds the sources in the JSON text of a notebook and replaces them there, `ipython` turns the language of
cells into Python, `source` makes one `Source` of all cells, and `order` asks whether a rewrite holds when cells
are run in another order, or twice.
"""
