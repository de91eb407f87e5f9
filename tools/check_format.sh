#!/bin/sh
# Are all C files formatted as .clang-format says? With --fix: formats them.
set -eu
cd "$(dirname "$0")/.."
mode="--dry-run --Werror"
[ "${1:-}" = "--fix" ] && mode="-i"
command -v clang-format >/dev/null || { echo "check_format: no clang-format"; exit 77; }
dirs=
for dir in include src cli tests fuzz bench examples; do
    [ -d "$dir" ] && dirs="$dirs $dir"
done
# shellcheck disable=SC2086
find $dirs -name '*.[ch]' -print0 | xargs -0 clang-format $mode
echo "format: ok"
