#!/bin/sh
# Generates the stubs into build/src/spoolrack/v1, and builds all three programs into build/.
# GO111MODULE=off: gRPC and protobuf are Debian's packages, which lie in /usr/share/gocode.
set -eu
cd "$(dirname "$0")"
protos=$(cd ../../../protos && pwd)
debian=/usr/share/gocode

rm -rf build/src
mkdir -p build/src
mapping=
for file in "$protos"/spoolrack/v1/*.proto; do
    mapping="$mapping,Mspoolrack/v1/${file##*/}=spoolrack/v1;spoolrackpb"
done
protoc -I "$protos" -I /usr/include \
    --go_out="build/src" --go_opt="${mapping#,}" \
    --go-grpc_out="build/src" --go-grpc_opt="${mapping#,}" \
    "$protos"/spoolrack/v1/*.proto

ln -sfn ../.. build/src/example
export GO111MODULE=off GOPATH="$PWD/build:$debian" GOFLAGS= GOTOOLCHAIN=local CGO_ENABLED=0
for program in producer worker interop; do
    go build -o "build/$program" "example/$program"
done
