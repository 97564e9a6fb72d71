"""The storage engine of Spoolrack: folders, files and renames, and nothing else.

Standard library only, and no knowledge of gRPC, HTTP or the command line. Each folder is a floor, and
imports point down only:

    store, committer, drivers    the front that threads share
    fsck                         a root looked at, and mended, without a server
    engine                       what the operations do: one commit at a time, no threads
    files                        the disk, and what of it is durable
    index                        what waits, in memory and in order; pure
    model                        names, moves, settings, errors, time: the words; pure

Start reading at `store.Store`.
"""
