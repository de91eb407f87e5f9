#!/bin/sh
# Each public header compiles alone, as C11 and as C++17, without a warning and without a hole in a
# struct: a hole would become the garbage value of a field that is added later.
# Usage: check_headers.sh C-COMPILER C++-COMPILER
set -eu
cd "$(dirname "$0")/.."
cc=$1
cxx=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Iinclude -Wall -Wextra -Wpedantic -Wpadded -Werror"
failed=0
for header in include/pkv/*.h; do
    name=$(basename "$header")
    printf '#include <pkv/%s>\ntypedef int alone;\n' "$name" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cpp"
    # shellcheck disable=SC2086
    $cc -std=c11 -Wstrict-prototypes $warnings -c "$work/alone.c" -o "$work/alone.o" || failed=1
    # shellcheck disable=SC2086
    $cxx -std=c++17 $warnings -c "$work/alone.cpp" -o "$work/alone.o" || failed=1
done
[ $failed -eq 0 ] && echo "headers: ok"
exit $failed
