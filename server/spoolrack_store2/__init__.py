"""The next store: a batch of messages is one file, and a commit holds one lock.

It grows here beside `spoolrack_store`, which serves, and replaces it when it can do all that one does.
Nothing outside of its tests imports it yet, and the wheel leaves it out.
`docs/decisions/0012-a-batch-is-one-file.md` says what it changes and why.
"""
