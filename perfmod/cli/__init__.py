"""The command line: parsing and exit codes; what the commands do stands elsewhere."""
