"""`python -m spoolrack_server` is `spoolrack`."""

from .cli import main

main()
