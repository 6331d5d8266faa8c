"""What the tests run under: the guard that ends what hangs, and the tests of it."""
