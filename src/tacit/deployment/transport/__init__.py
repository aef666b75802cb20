"""What carries bytes between the server and its sites: Flower, or calls in one process."""
