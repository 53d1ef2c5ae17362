#!/bin/sh
# Continues the last run, or '--run NAME', from its last finished round; ends as run.sh does.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt

exec fedgt resume . "$@"
