#!/bin/sh
# Brings the kit in the folder named up to date with this one: a newer FedGT, a new key, certificate or address.
#     ./update.sh ../%{kit}
# What was edited there (node.toml, run.toml) stays, and so do data, state, runs and logs. End what runs there first.
set -eu
[ "$#" -eq 1 ] || {
    echo "name the folder of the kit in use: $0 FOLDER" >&2
    exit 2
}
there=$(CDPATH= cd -- "$1" && pwd -P)
CDPATH= cd -- "$(dirname -- "$0")"

names() {
    grep -hsE '^(federation|institution) = ' "$1/kit.toml" "$1/control.toml" || :
}
if [ "$there" = "$(pwd -P)" ] || [ "$(names "$there")" != "$(names .)" ]; then
    echo "$there is not an earlier copy of this kit" >&2
    exit 2
fi
for file in *; do
    case $file in
    data | state | runs | database | state.db* | logs | flower | cache | app) continue ;;
    node.toml | run.toml) [ ! -e "$there/$file" ] || continue ;;
    fedgt-*.whl) rm -f "$there"/fedgt-*.whl ;;
    esac
    # Never into a file that a program has open.
    cp -Rp --remove-destination -- "$file" "$there/"
done
[ ! -d "$there/.venv" ] || "$there/install.sh"
echo "$there is up to date"
