#!/bin/sh
# Trains the federation with the settings in run.toml, or in the file given; results go to runs/.
# The name of an earlier run is refused, unless '--replace' says to set that run aside.
# Ends with 0 when the run is finished, 1 when it failed, 2 when it could not be started, and 3 when
# it gave up for lack of institutions. ./resume.sh continues a run that failed or gave up.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt

case ${1:-} in
'' | -*) settings=run.toml ;;
*) settings=$1 && shift ;;
esac
exec fedgt launch . --settings "$settings" "$@"
