#!/bin/sh
# Starts the coordinator of the federation %{federation}. Ctrl-C ends it; its state stays in state.db.
set -eu
umask 077
CDPATH= cd -- "$(dirname -- "$0")"
. ./environment.sh
need fedgt-superlink
need fedgt
keep_log superlink
# With a certificate that has ended nobody could connect; the reason belongs in this log.
fedgt doctor . --only server.crt || exit 2

# Institutions reach the Fleet API alone. The control API, which starts runs at every institution,
# stays on loopback and asks for the operator's secret.
exec fedgt-superlink --operator-secret-file operator.secret \
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \
    --host 127.0.0.1 --port %{control_port} \
    --fleet-api-address %{listen} \
    --enable-supernode-auth --database state.db \
    --disable-runtime-dependency-installation "$@"
