"""Agents of Stable-Baselines3 and sb3-contrib, to compare Fox's own with."""
