#!/bin/sh
# Installs the packages that package-lock.json pins into node_modules/. There are no stubs to generate:
# @grpc/proto-loader reads the contract when a program starts.
set -eu
cd "$(dirname "$0")"

wanted=$(cat package.json package-lock.json | sha256sum)
if [ "$(cat node_modules/.made-of 2>/dev/null)" = "$wanted" ]; then exit 0; fi
# Where a proxy inspects what comes from the registry, the system or pip knows its CA, and Node has its own list.
for ca in "${NODE_EXTRA_CA_CERTS:-}" "${SSL_CERT_FILE:-}" "${PIP_CERT:-}" /etc/ssl/certs/ca-certificates.crt; do
    if [ -r "$ca" ]; then
        export NODE_EXTRA_CA_CERTS="$ca"
        break
    fi
done
npm ci --no-progress --loglevel=error
echo "$wanted" >node_modules/.made-of
