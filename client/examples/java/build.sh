#!/bin/sh
# Generates the stubs and builds the programs and the driver into build/.
set -eu
cd "$(dirname "$0")"
exec make -s interop
