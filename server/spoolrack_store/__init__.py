"""The storage engine of Spoolrack: folders, files, links and renames, and nothing else.

Standard library only, and no knowledge of gRPC, HTTP or the command line. Each folder is a floor, and
imports point down only:

    store, committer, drivers    the front that threads share
    fsck                         a root looked at, and mended, without a server
    engine                       what the operations do: one commit at a time, no threads
    files                        the disk, the lock and the log of changes, what is durable
    model                        names, batches, settings, errors, time: values and rules; pure

Start reading at `store.Store`, and then `engine.engine.Engine`.
"""
