"""Fox: a batched futures-trading environment with one trading physics on CPU and GPU."""
