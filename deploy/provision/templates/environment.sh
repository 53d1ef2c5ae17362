# Flower's own files stay in this folder; it reports nothing and installs nothing by itself.
export FLWR_HOME="${FEDGT_FLWR_HOME:-$PWD/flower}"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# Programs of this machine talk to each other without a proxy.
export NO_PROXY="${NO_PROXY:+$NO_PROXY,}127.0.0.1,localhost"
export no_proxy="$NO_PROXY"

need() {
    command -v "$1" >/dev/null || {
        echo "$1 is not on the PATH: activate the environment that fedgt is installed in" >&2
        exit 2
    }
}
