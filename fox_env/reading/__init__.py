"""Internal readers of market-data files: from bytes to tables to parsed columns."""
