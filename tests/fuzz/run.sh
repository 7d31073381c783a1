#!/bin/bash
# Runs every fuzzer of a build for a while, one after the other. What it learns stays in the
# build folder; an input that breaks something is named, and kept there too.
#
# usage: tests/fuzz/run.sh FOLDER SECONDS
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$1 seconds=$2
failed=0 run=0

for fuzzer in "$folder"/fuzz_*; do
    [[ -f $fuzzer && -x $fuzzer ]] || continue
    name=$(basename "$fuzzer")
    learned=$folder/learned/$name
    mkdir -p "$learned"
    seeds=$here/corpus/${name#fuzz_}
    [[ -d $seeds ]] || seeds=
    echo "fuzz: $name for $seconds s"
    run=$((run + 1))
    if ! "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$folder/$name-" "$learned" $seeds; then
        echo "fuzz: $name FAILED; replay with: $fuzzer <the file named above>"
        failed=1
    fi
done
((run > 0)) || echo "fuzz: there are no fuzzers yet"
exit $failed
