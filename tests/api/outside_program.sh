#!/bin/sh
# Builds a C program as its author would, against what stands in the given folders, and runs it with no
# daemon in reach: an embedded node.
#   outside_program.sh "CC FLAGS" INCLUDE_DIR LIBRARY_DIR "LIBRARIES" SOURCE
set -eu
compile=$1 include=$2 library=$3 libraries=$4 source=$5
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
# shellcheck disable=SC2086  # flags are words
$compile -Wall -Wextra -Werror -DINFINIBAND -I"$include" "$source" -o "$directory/program" -L"$library" $libraries
OCM_SOCKET="$directory/no-daemon.sock" LD_LIBRARY_PATH="$library" "$directory/program"
