"""Spoolrack's storage engine: queues in folders, changed by links and renames.

Standard library only, and no knowledge of gRPC, HTTP or the command line. Each folder is a floor, and
imports point down only:

    store, committer, questions   the surface that threads share
    fsck                          checks and repairs a root without a server
    engine                        the operations: one commit at a time, no threads
    files                         the disk, the lock, the log of changes, the durability barrier
    model                         names, batch files, settings, errors, time: values and rules; pure
    credits                       what a consumer may hold, which it shares with the engine

Start reading at `store.Store`, and then `engine.engine.Engine`.
"""
