"""Parts of all commands: options, connections, units, output, exit codes and signals."""
