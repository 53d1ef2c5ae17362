#!/bin/sh
# Installs FedGT and all that it needs into .venv of this folder: the wheel that came with it, and packages whose
# hashes are in requirements.lock (Linux on x86-64, Python 3.11). The other scripts use it from then on.
set -eu
CDPATH= cd -- "$(dirname -- "$0")"
python=${PYTHON:-python3.11}
command -v "$python" >/dev/null || {
    echo "$python is not on the PATH: install Python 3.11, or name it: PYTHON=… ./install.sh" >&2
    exit 2
}
before=
if [ -e .venv/bin/fedgt ] && grep -qF "$(pwd -P)/.venv/bin/python" .venv/bin/fedgt; then
    before=yes
else
    # None yet, one that was not finished, or of another folder, whose programs would not start here.
    "$python" -m venv --clear .venv
fi
# The list is complete: nothing is installed that is not in it.
.venv/bin/python -m pip install --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock "$@"
# Other code may have the same version: pip would keep what was there. It has checked the wheel's hash just now.
[ -z "$before" ] ||
    .venv/bin/python -m pip install --disable-pip-version-check --no-deps --no-index --force-reinstall ./fedgt-*.whl
echo "installed; the scripts use it, and so do you after: . .venv/bin/activate"
