"""Speed measurements, each against a competitor in the same run: `python -m benchmarks --help`."""
