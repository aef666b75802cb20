"""A site: it answers requests, keeps its own budget, and lives in a process of its own."""
