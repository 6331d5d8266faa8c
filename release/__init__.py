"""What is uploaded for a release: the wheels, the source distribution and the wheel for other systems.

`python -m release` (`make wheels`) makes all of it in `dist`. Nothing here is part of the package.
"""
