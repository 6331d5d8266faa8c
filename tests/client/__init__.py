"""Tests of the HTTP client and of the facades on it."""
