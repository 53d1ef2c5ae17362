# The environment that install.sh made, if it did; otherwise the one that is active.
if [ -d .venv ]; then
    # Its programs name the folder that they were installed in.
    grep -qsF "$(pwd -P)/.venv/bin/python" .venv/bin/fedgt || {
        echo "what is installed in .venv was not finished, or for another folder: run ./install.sh again" >&2
        exit 2
    }
    export PATH="$PWD/.venv/bin:$PATH"
fi
# Flower's own files stay in this folder; it reports nothing and installs nothing by itself.
export FLWR_HOME="${FEDGT_FLWR_HOME:-$PWD/flower}"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# Programs of this machine talk to each other without a proxy.
export NO_PROXY="${NO_PROXY:+$NO_PROXY,}127.0.0.1,localhost"
export no_proxy="$NO_PROXY"
# What a program says must not wait in its memory for more.
export PYTHONUNBUFFERED=1

need() {
    command -v "$1" >/dev/null || {
        echo "$1 is not on the PATH: activate the environment that fedgt is installed in" >&2
        exit 2
    }
}

# What this script and its programs print goes to logs/NAME.log as well: rotated, and for its owner alone.
keep_log() {
    mkdir -p logs
    pipe=logs/.$1.$$
    mkfifo -m 600 "$pipe"
    (
        trap '' INT TERM HUP
        code=137
        # Killed, it begins again: nothing else reads what the programs print.
        while [ "$code" -gt 128 ]; do
            code=0
            fedgt log "logs/$1.log" || code=$?
        done
    ) <"$pipe" &
    exec >"$pipe" 2>&1
    rm -f "$pipe"
}
