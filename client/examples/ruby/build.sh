#!/bin/sh
# Generates the stubs into build/stubs.
set -eu
cd "$(dirname "$0")"
exec make -s
