"""Builds the files of a release: the wheels, the source distribution and the wheel for other systems.

`python -m release` (`make wheels`) writes them to `dist`. This folder is not part of the package, except for the code
in `elsewhere`, which is in the wheel for other systems.
"""
