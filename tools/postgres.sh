#!/bin/sh
# Prints where the programs of PostgreSQL's server are, which the tests of SQL catalogs run: from PATH, or Debian's place.
#
#   postgres.sh              one line on stderr and exit 1 if there are none
#   postgres.sh --install    the same, but first tries the package manager if this is root on Debian
set -u

find_programs() {
    for program in "$(command -v initdb)" /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb; do
        [ -x "$program" ] && dirname "$(readlink -f "$program")" && return
    done
    return 1
}

find_programs && exit 0
[ "${1:-}" = --install ] && sh "$(dirname "$0")/apt.sh" postgresql && find_programs && exit 0
echo "no PostgreSQL server found: install it (Debian: apt-get install postgresql)" >&2
exit 1
