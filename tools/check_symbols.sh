#!/bin/sh
# What the shared libraries export equals tests/abi/symbols.txt, and their public part equals what
# the headers declare. With --update the list is written anew: a changed line is a changed promise.
# Usage: check_symbols.sh [--update] FOLDER-OF-THE-LIBRARIES
set -eu
update=
[ "${1:-}" = "--update" ] && update=1 && shift
libs=$(cd "${1:?folder of the libraries}" && pwd)
cd "$(dirname "$0")/.."
list=tests/abi/symbols.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# "library symbol@@node"; nodes themselves are absolute symbols
for lib in pagedkv pagedkv_model; do
    [ -e "$libs/lib$lib.so" ] || continue
    nm -D --defined-only "$libs/lib$lib.so" | awk -v lib="$lib" '$2 != "A" {print lib, $3}' | sort
done >"$work/symbols"

sed -n 's/^[a-z_]* \(pkv_[a-z0-9_]*\)@.*/\1/p' "$work/symbols" | sort >"$work/exported"
headers=$(find include/pkv -name '*.h' ! -name export.h)
# shellcheck disable=SC2086
cat $headers | tr '\n' ' ' | grep -o 'PKV_API[^;]*;' | grep -o 'pkv_[a-z0-9_]* *(' | tr -d ' (' |
    sort -u >"$work/declared"

if [ -n "$update" ]; then
    cp "$work/symbols" "$list"
    echo "symbols: wrote $(wc -l <"$list") lines to $list"
elif ! diff -u "$list" "$work/symbols"; then
    echo "symbols: the libraries export something else than $list (see above)"
    exit 1
fi
if ! diff -u "$work/declared" "$work/exported"; then
    echo "symbols: headers (-) and libraries (+) differ"
    exit 1
fi
echo "symbols: ok"
