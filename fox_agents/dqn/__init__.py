"""The branching distributional DQN (needs torch)."""
