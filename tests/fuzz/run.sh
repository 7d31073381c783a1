#!/bin/bash
# Runs the fuzzers of a build for a while, one after the other: all, or those named. Prints one
# line for each: inputs run, coverage, crashes. What they learn stays in the build folder; an
# input that breaks something is kept there and named, with the command that replays it.
#
# usage: tests/fuzz/run.sh [--tap] FOLDER SECONDS [NAME...]
set -uo pipefail

tap=
if [[ ${1-} == --tap ]]; then
    tap=1
    shift
fi
if (($# < 2)); then
    echo "usage: tests/fuzz/run.sh [--tap] FOLDER SECONDS [NAME...]" >&2
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
missing="there are no fuzzers in $folder: clang's fuzzer runtime is missing (Debian: libclang-rt-dev, or libclang-common-N-dev)"
if (($# == 0)); then
    [[ -n $tap ]] && echo "1..0 # SKIP $missing" || echo "fuzz: skipped: $missing"
    exit 0
fi

# tell NUMBER WORD LINE: WORD is "ok" or "not ok".
tell() {
    if [[ -n $tap ]]; then
        echo "$2 $1 - $3"
    else
        echo "fuzz: $3"
    fi
}

# The last number after a word in a fuzzer's log, or 0.
last() {
    local found
    found=$(grep -oE "$1 [0-9]+" "$2" | tail -n 1)
    echo "${found##* }" | grep . || echo 0
}

failed=0 number=0
[[ -n $tap ]] && echo "1..$#"
for name in "$@"; do
    number=$((number + 1))
    fuzzer=$folder/fuzz_$name
    if [[ ! -x $fuzzer ]]; then
        tell $number ok "$name # SKIP $missing"
        continue
    fi
    inputs=("$folder/learned/$name") # New inputs go into the first.
    mkdir -p "${inputs[0]}"
    for seeds in "$folder/seeds/$name" "$corpus/$name"; do
        [[ -d $seeds ]] && inputs+=("$seeds")
    done
    log=$folder/fuzz_$name.log
    "$fuzzer" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
        -artifact_prefix="$folder/broke-$name-" "${inputs[@]}" >"$log" 2>&1
    status=$?
    runs=$(last 'stat::number_of_executed_units:' <(tr -s ' ' <"$log"))
    result="$name: $runs runs, coverage $(last cov: "$log")"
    if ((status == 0)); then
        tell $number ok "$result, 0 crashes"
        continue
    fi
    failed=1
    tell $number 'not ok' "$result, 1 crash"
    broke=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    {
        grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|RELOAD|INITED|READ)' "$log" | tail -n 40
        echo "replay with: $fuzzer ${broke:-(no input was kept; see $log)}"
    } | sed 's/^/# /'
done
exit $failed
