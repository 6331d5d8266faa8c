"""`make fuzz`: `src` has the programs in Rust, `python_targets` those in Python, `corpora` their first inputs."""
