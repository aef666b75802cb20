"""Real federations on Flower: sites that keep their own budget, and a server that they can check.

    settings      what is public (federation.toml) and what is a site's or the server's own
    policy        what a site allows, and the sentence when it refuses
    site          answers requests: admits a run, charges, computes; state and ledger on its disk
    coordinator   the server's loop over any transport: wait, announce, rounds, checkpoints
    node, grid    the same bytes over Flower's Fleet and Runtime interfaces
    setup         certificates, keys and folders of a new federation
    processes     starting, watching and stopping what runs

Only ``node``, ``grid`` and ``server_app`` import Flower.
"""
