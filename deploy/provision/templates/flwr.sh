#!/bin/sh
# Any flwr command at this coordinator, such as './flwr.sh list fedgt' or './flwr.sh stop RUN fedgt'.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need flwr

# Written each time: Flower takes only an absolute path, and this folder may have moved.
mkdir -p "$FLWR_HOME"
toml_string() {
    printf '"%%s"' "$(printf '%%s' "$1" | sed 's/[\\"]/\\&/g')"
}
cat >"$FLWR_HOME/config.toml.$$" <<END
[superlink.fedgt]
address = $(toml_string "${FEDGT_CONTROL:-127.0.0.1:%{control_port}}")
root-certificates = $(toml_string "$PWD/ca.crt")
END
mv "$FLWR_HOME/config.toml.$$" "$FLWR_HOME/config.toml"
exec flwr "$@"
