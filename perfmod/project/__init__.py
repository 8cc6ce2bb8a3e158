"""Which files belong together: imports followed on the disk, both ways, without parsing whole files."""
