#!/bin/sh
# Prints a systemd unit that runs this kit from the folder it is in, as the user who calls this:
#     ./service.sh | sudo tee /etc/systemd/system/%{unit}.service
#     sudo systemctl daemon-reload && sudo systemctl enable --now %{unit}
set -eu
CDPATH= cd -- "$(dirname -- "$0")"
# A per cent sign would be the beginning of one of systemd's own names.
here=$(echo "$PWD" | sed 's/%%/%%%%/g')
path=$(echo "$PATH" | sed 's/%%/%%%%/g')
cat <<END
[Unit]
Description=FedGT (%{unit})
Wants=network-online.target
After=network-online.target time-sync.target
StartLimitIntervalSec=0

[Service]
Type=exec
User=$(id -un)
Group=$(id -gn)
WorkingDirectory=$here
Environment="PATH=$here/.venv/bin:$path"
ExecStart="$here/%{start}"
# Code 2: something in the kit is wrong, and will be so again.
Restart=always
RestartPreventExitStatus=2
RestartSec=10
KillMode=mixed
TimeoutStopSec=90
UMask=0077
LimitNOFILE=65536
TasksMax=4096
MemoryMax=90%%
NoNewPrivileges=yes
ProtectSystem=full
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes

[Install]
WantedBy=multi-user.target
END
