#!/bin/sh
# Connects %{institution} to the federation %{federation}. Ctrl-C ends it; its state stays.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need flower-supernode
# Prepared graphs are as private as the data they are made of.
export FEDGT_CACHE="${FEDGT_CACHE:-$PWD/cache}"
[ -f node.key ] || {
    echo "node.key is missing: put it here, or make one with 'fedgt provision key .'" >&2
    exit 2
}

exec flower-supernode \
    --superlink %{address} --root-certificates ca.crt \
    --auth-supernode-private-key node.key \
    --host 127.0.0.1 --port %{port} \
    --node-config node.toml "$@"
