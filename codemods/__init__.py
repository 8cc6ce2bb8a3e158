"""How rewrites are put into code: the catalogue of rules, the engine and the patches."""
