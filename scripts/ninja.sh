#!/bin/bash
# Builds, and tells what: the number of steps if there are any, on a terminal how far it is.
#
# usage: [JOBS=N] scripts/ninja.sh FOLDER [TARGET…]
set -euo pipefail

folder=$1
shift
ninja=(ninja -C "$folder" ${JOBS:+-j "$JOBS"})
# A change of the build files themselves is one step before the others can be counted.
"${ninja[@]}" --quiet build.ninja >/dev/null
steps=$("${ninja[@]}" -n "$@" | grep -c '^\[' || true)
((steps > 0)) || exit 0
began=$SECONDS
echo "building $folder: $steps steps"
if [[ -t 1 ]]; then
    "${ninja[@]}" "$@"
else
    "${ninja[@]}" --quiet "$@"
fi
echo "building $folder: done in $((SECONDS - began)) s"
