#!/bin/sh
# The tests drive a real OpenSSH server and a real terminal. Installs what is missing where that is allowed,
# and otherwise says what is missing and fails.
set -eu
missing=""
[ -x /usr/sbin/sshd ] || command -v sshd >/dev/null 2>&1 || missing="$missing openssh-server"
command -v ssh >/dev/null 2>&1 || missing="$missing openssh-client"
command -v tmux >/dev/null 2>&1 || missing="$missing tmux"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
    exit 0
fi
echo "make test: missing:$missing. Install them with the system's package manager and run it again." >&2
exit 1
