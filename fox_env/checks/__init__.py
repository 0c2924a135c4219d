"""The single checks behind :func:`fox_env.validate_bars`, one module per concern."""
