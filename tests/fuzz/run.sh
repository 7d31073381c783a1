#!/bin/bash
# Runs the fuzzers of a build for a while, one after the other: all, or those named. What they
# learn stays in the build folder; an input that breaks something is kept there and named.
#
# usage: tests/fuzz/run.sh FOLDER SECONDS [NAME...]
set -uo pipefail

if (($# < 2)); then
    echo "usage: tests/fuzz/run.sh FOLDER SECONDS [NAME...]" >&2
    exit 2
fi
corpus=$(cd "$(dirname "$0")" && pwd)/corpus
folder=$1 seconds=$2
shift 2
if (($# == 0)); then
    for fuzzer in "$folder"/fuzz_*; do
        [[ -f $fuzzer && -x $fuzzer ]] && set -- "$@" "${fuzzer##*/fuzz_}"
    done
fi

failed=0
(($# > 0)) || echo "fuzz: there are no fuzzers in $folder"
for name in "$@"; do
    fuzzer=$folder/fuzz_$name
    inputs=("$folder/learned/$name") # New inputs go into the first.
    mkdir -p "${inputs[0]}"
    [[ -d $corpus/$name ]] && inputs+=("$corpus/$name")
    echo "fuzz: $name for $seconds s"
    if ! "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$folder/broke-$name-" "${inputs[@]}"; then
        broke=$(ls -t "$folder/broke-$name-"* 2>/dev/null | head -n 1)
        echo "fuzz: $name FAILED; replay with: $fuzzer $broke"
        failed=1
    fi
done
exit $failed
