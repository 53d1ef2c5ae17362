#!/bin/sh
# Brings the running SuperLink in line with the keys in this folder: registers every keys/NAME.pub
# under its institution's name, and takes every key in revoked/ out. May be run any number of times.
set -eu
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt
exec fedgt provision register . "$@"
