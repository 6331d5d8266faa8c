"""Everything that says whether oneloop behaves: by what nobody here wrote, and by our own tests."""
