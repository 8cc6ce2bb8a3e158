"""`perfmod tune`: finds the fastest training that is still the same, by running it."""
