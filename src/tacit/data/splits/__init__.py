"""Who gets which records, and which are kept back for testing."""
