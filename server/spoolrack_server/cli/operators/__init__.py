"""Commands for operators: servers, roots, backups, tokens and measurements."""
