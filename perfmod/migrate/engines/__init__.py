"""What runs pieces of work: this machine, or a cluster."""
