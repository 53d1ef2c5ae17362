#!/bin/sh
# Trains the federation with the settings in run.toml, or in the file given; results go to runs/.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fedgt provision app "$scratch/fedgt"
./flwr.sh run "$scratch/fedgt" fedgt --stream --run-config "${1:-run.toml}"
