"""Real federations on Flower: every site enforces its own budget and checks the server's requests.

    settings      the public file (federation.toml) and the private files of site and server
    policy        what a site allows, and the message when it refuses
    site          answers requests: admits a run, charges, computes; state and ledger on its disk
    coordinator   the server's loop over any transport: wait, announce, rounds, checkpoints
    node, grid    the same bytes over Flower's Fleet and Runtime interfaces
    setup         certificates, keys and folders of a new federation
    processes     start, watch and stop the processes

Only ``node``, ``grid`` and ``server_app`` import Flower.
"""
