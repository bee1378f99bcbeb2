"""A seeded simulator of the copying protocol: virtual time, one random generator, no threads, no I/O.

    cd tests && python -m simulation --seed 17        replays one schedule with its trace
    cd tests && python -m simulation --seeds 0 5000   looks for a seed that breaks a promise

`sparkmirror.ledger` and `sparkmirror.wire` run as they are; brokers, the ledger topic, slots and drivers are models.
"""
