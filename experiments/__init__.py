"""Research with Tacit: reruns of the papers' tables and figures, and further studies."""
