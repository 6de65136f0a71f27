#!/bin/sh
# Prints the JAVA_HOME to use: Java 17 to 21, which is what Spark 4.1 and Iceberg run on (a newer one may be
# installed and even be first on PATH; Spark does not start on it).
#
#   java.sh              looks at JAVA_HOME, java on PATH and /usr/lib/jvm; one line on stderr and exit 1 if none fits
#   java.sh --install    the same, but first tries the package manager if none fits and this is root on Debian or Ubuntu
set -u

major_version() { # of the Java in directory $1; nothing if there is none
    "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
}

find_java_home() {
    on_path=$(command -v java) && on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
    for home in "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
        [ -n "$home" ] && [ -x "$home/bin/java" ] || continue
        version=$(major_version "$home")
        if [ "${version:-0}" -ge 17 ] && [ "$version" -le 21 ]; then
            echo "$home"
            return 0
        fi
    done
    return 1
}

install_java() {
    apt="$(dirname "$0")/apt.sh"
    sh "$apt" openjdk-17-jre-headless || sh "$apt" default-jre-headless
}

find_java_home && exit 0
[ "${1:-}" = --install ] && install_java && find_java_home && exit 0
echo "no Java 17 to 21 found: set JAVA_HOME to one, or install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)" >&2
exit 1
