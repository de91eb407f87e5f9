#!/bin/sh
# Installs a build into an empty prefix, moves that, and uses it as others would: C by pkg-config,
# C all static, C++ by CMake, the program. All must print the same.
# Usage: run.sh BUILD-FOLDER C-COMPILER C++-COMPILER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
cc=$2
cxx=$3
work=$build/consumer
prefix=$work/moved
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/installed" >"$work/install.log"
mv "$work/installed" "$prefix"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pagedkv_model.pc)")
export PKG_CONFIG_PATH
libs=$(dirname "$PKG_CONFIG_PATH")
version=$(pkg-config --modversion pagedkv)
flags="-std=c11 -Wall -Wextra -Wpedantic -Werror $here/plan.c"

# shellcheck disable=SC2046,SC2086
$cc $flags -o "$work/plan_c" $(pkg-config --cflags --libs pagedkv_model)
# shellcheck disable=SC2046,SC2086
$cc $flags -static -o "$work/plan_c_static" $(pkg-config --static --cflags --libs pagedkv_model)
cmake -G Ninja -S "$here/cmake" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" >"$work/cmake.log"
cmake --build "$work/cmake" >>"$work/cmake.log"

expected="$version: 4096 blocks"
for program in plan_c plan_c_static cmake/plan_shared cmake/plan_static; do
    answer=$(LD_LIBRARY_PATH=$libs "$work/$program")
    [ "$answer" = "$expected" ] || { echo "$program: \"$answer\", not \"$expected\""; exit 1; }
done
answer=$("$prefix/bin/pagedkv" --version)
[ "$answer" = "pagedkv $version" ] || { echo "--version: \"$answer\""; exit 1; }
echo "consumer: ok"
