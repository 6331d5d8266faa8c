"""The benchmarks: all claims about speed are measured here. Run `python -m bench`; not part of the package."""
