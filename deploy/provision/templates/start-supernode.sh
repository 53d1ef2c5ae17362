#!/bin/sh
# Connects %{institution} to the federation %{federation}, and again whenever the connection is lost
# for good. Ctrl-C ends it; its state stays.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt-supernode
need fedgt
keep_log supernode
# Prepared graphs are as private as the data they are made of.
export FEDGT_CACHE="${FEDGT_CACHE:-$PWD/cache}"
[ -f node.key ] || {
    echo "node.key is missing: put it here, or make one with 'fedgt provision key .'" >&2
    exit 2
}

institution=%{institution}
child=
stop() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null || :
        wait "$child" || :
    fi
    exit 0
}
trap stop INT TERM HUP

refusals=0
pause=2
while :; do
    started=$(date +%%s)
    fedgt-supernode \
        --superlink %{address} --root-certificates ca.crt \
        --auth-supernode-private-key node.key \
        --host 127.0.0.1 --port %{port} \
        --node-config node.toml "$@" &
    child=$!
    code=0
    wait "$child" || code=$?
    child=
    # Its options are wrong: they will be so again.
    [ "$code" -ne 2 ] || exit 2
    # Flower refuses a key that it does not know, and for a minute one whose supernode was killed:
    # the coordinator tells which.
    verdict=0
    fedgt doctor . --only admission || verdict=$?
    case $verdict in
    0) refusals=0 ;;
    1) refusals=$((refusals + 1)) ;;
    *)
        echo "this kit cannot be used: correct what is said above, then start again" >&2
        exit 2
        ;;
    esac
    if [ "$refusals" -ge 3 ]; then
        echo "the coordinator does not let $institution in: fix what is said above, then start again" >&2
        exit 1
    fi
    [ $(($(date +%%s) - started)) -lt 300 ] || pause=2
    echo "the supernode ended with code $code; it is started again in $pause s" >&2
    sleep "$pause" &
    child=$!
    wait "$child" || :
    child=
    pause=$((pause < 32 ? pause * 2 : 60))
done
