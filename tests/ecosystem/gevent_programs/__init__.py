"""Programs for gevent, as their authors would write them; they know nothing of oneloop."""
