"""One native event loop for all of a Python program's I/O."""
