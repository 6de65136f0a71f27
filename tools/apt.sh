#!/bin/sh
# Installs packages of the distribution if this is root on Debian or Ubuntu, and fails otherwise: apt.sh PACKAGE...
set -eu

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
exec 9</var/lib/apt
flock 9 # apt-get fails while another one runs, and several test processes may start it
echo "apt.sh: installing $*" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update >&2
apt-get install -y --no-install-recommends "$@" >&2
