"""Spoolrack beside the limit of the file system and beside its peers: one program, one disk, one run.

    python -m benchmarks.compare --help

`compare` starts every system on a file system of its own, sends the same load through the same client
processes at each of them, round by round, and writes what it found as JSON; `page` makes the tables and
plots of docs/explanation/performance.md from that. A system is a module of `systems`: how it is started
with its strictest promise, and how a program talks to it.
"""
