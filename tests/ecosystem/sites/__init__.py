"""The same site on many servers, for the client's tests: see `app` for what its paths answer.

Each program takes its ports as arguments and listens on 127.0.0.1. The field X-Port of an answer is the client's port.
"""
