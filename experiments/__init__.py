"""Research with Tacit: the papers' tables and figures again, and studies beyond them."""
