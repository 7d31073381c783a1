#!/bin/sh
# Takes out one rule of the protocol after the other and lets the simulator look for the damage.
# Prints, in TAP, within how many seeds each was noticed; a rule that nobody misses is a failure.
#
# usage: mutations.sh SIM-MUTANT [SEEDS]
set -u

sim=$1
seeds=${2:-20000}
n=$("$sim" --mutations | wc -l)
i=0
failed=0

echo "1..$n"
tab=$(printf '\t')
while IFS="$tab" read -r rule text; do
    i=$((i + 1))
    out=$("$sim" --mutation "$rule" --seeds "$seeds" --failures 1 2>/dev/null)
    ran=$(printf '%s\n' "$out" | sed -n 's/^\([0-9]*\) seeds from .*/\1/p')
    why=$(printf '%s\n' "$out" | sed -n 's/^seed [0-9]* failed: //p' | head -n 1)
    if [ -n "$why" ]; then
        echo "ok $i - $rule: noticed within $ran seeds"
        echo "# without it, $text: \"$why\""
    else
        echo "not ok $i - $rule: nobody notices in $ran seeds that $text"
        failed=1
    fi
done <<RULES
$("$sim" --mutations)
RULES
exit $failed
