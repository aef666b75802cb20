"""A site: it answers requests, enforces its own budget, and runs in its own process."""
