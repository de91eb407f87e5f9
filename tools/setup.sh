#!/usr/bin/env bash
# Installs those Debian packages of tools/packages.txt that are missing. Asks nothing; does nothing
# where all are there. Usage: setup.sh build|check...
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/log
log=build/log/setup.log

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; going on with what is installed (see tools/packages.txt)"
    exit 0
fi

missing=()
for purpose in "$@"; do
    while read -r package; do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$status" = installed ] || missing+=("$package")
    done < <(sed -n "s/^$purpose //p" tools/packages.txt)
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: all packages are there"
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: missing, and only root can install them with apt-get: ${missing[*]}" >&2
    exit 1
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
{
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${missing[@]}"
} >"$log" 2>&1 </dev/null || {
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed, see $log" >&2
    exit 1
}
