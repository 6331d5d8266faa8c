"""Random programs, run on stock asyncio and on oneloop: what they can observe must agree.

A program is data (`program.py`): a list of actions, drawn from a seed by an author (`author.py`). A world (`world.py`)
plays it on one loop and writes down what a program, its peer and its descriptors show: the trace. `comparison.py`
decides whether two traces agree, `shrinking.py` makes a failing program small, `allowed.py` is the whole list of
differences that are meant. Each other file is one subject: its actions, and how they are drawn.
"""
