#!/bin/sh
# Prints the browser that looks at the server's page in the tests: Chromium, or Chrome, from PATH.
#
#   chromium.sh              one line on stderr and exit 1 if there is none
#   chromium.sh --install    the same, but first tries the package manager if this is root on Debian
set -u

find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

find_browser && exit 0
[ "${1:-}" = --install ] && sh "$(dirname "$0")/apt.sh" chromium fonts-dejavu-core && find_browser && exit 0
echo "no Chromium found: install it (Debian: apt-get install chromium)" >&2
exit 1
