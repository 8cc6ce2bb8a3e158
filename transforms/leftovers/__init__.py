"""Rules against debugging that was left switched on."""
