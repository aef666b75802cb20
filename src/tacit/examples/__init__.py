"""Ready configurations for ``tacit run --example NAME``."""
