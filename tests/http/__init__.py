"""Tests of `oneloop.http` and of the native server below it."""
