#!/bin/sh
# Any flwr command at this coordinator, such as './flwr.sh list fedgt'. 'fedgt runs' and 'fedgt stop' know runs by name.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need flwr
[ -r operator.secret ] || {
    echo "operator.secret cannot be read: it is for the coordinator's operator" >&2
    exit 2
}

# Written each time: Flower takes only an absolute path, and this folder may have moved.
mkdir -p "$FLWR_HOME"
toml_string() {
    printf '"%%s"' "$(printf '%%s' "$1" | sed 's/[\\"]/\\&/g')"
}
control=${FEDGT_CONTROL:-127.0.0.1:%{control_port}}
cat >"$FLWR_HOME/config.toml.$$" <<END
[superlink.fedgt]
address = $(toml_string "$control")
root-certificates = $(toml_string "$PWD/ca.crt")
END
mv "$FLWR_HOME/config.toml.$$" "$FLWR_HOME/config.toml"

# The operator's secret, where Flower looks for what proves an account.
secret=$(tr -d '\n' <operator.secret | base64 | tr -d '\n')
cat >"$FLWR_HOME/credentials.yaml.$$" <<END
"flower.account-auth.$control.authn-type": $(printf oidc | base64)
"flower.account-auth.$control.oidc-access-token": $secret
"flower.account-auth.$control.oidc-refresh-token": $(printf none | base64)
END
mv "$FLWR_HOME/credentials.yaml.$$" "$FLWR_HOME/credentials.yaml"
exec flwr "$@"
