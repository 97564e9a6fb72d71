"""The storage engine of Spoolrack: folders, files and renames, and nothing else.

Standard library only, and no knowledge of gRPC, HTTP or the command line. Start reading at
`store.Store`, the front that threads may share; `engine.Engine` below it does the work.
"""
