#!/bin/bash
# Makes a virtual environment with the frameworks that muster is tested with and measured beside:
# python/requirements/*.txt, which name every package with its version. Made once, and again when a list changes.
# Silent when there is nothing to do.
#
# usage: scripts/venv.sh FOLDER
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: scripts/venv.sh FOLDER" >&2
    exit 2
fi
venv=$1
lists=("$(dirname "$0")"/../python/requirements/*.txt)
python=/usr/bin/python3
[[ -x $python ]] || python=python3

stamp=$("$python" --version; sha256sum "${lists[@]}" | cut -d ' ' -f 1)
if [[ -f $venv/stamp && $(<"$venv/stamp") == "$stamp" ]]; then
    exit 0
fi

main=$(cat "${lists[@]}" | grep -E '^(tensorflow|keras|tf_keras|torch)' | paste -sd ' ')
echo "venv: installing into $venv: $main, and what they need"
echo "venv: about 520 MB to download and 2.4 GB on the disk, once; a few minutes"
began=$SECONDS
"$python" -m venv --clear "$venv"
log=$venv/install.log
arguments=()
for list in "${lists[@]}"; do
    arguments+=(-r "$list")
done
# Of all that pip says, what it fetches and how large that is.
if ! "$venv/bin/python" -m pip install --no-deps --progress-bar off "${arguments[@]}" 2>&1 | tee "$log" |
    sed -un 's/^ *\(Downloading\|Using cached\|Processing\) \(.*\/\)\?\([^/]*\)$/venv: \3/p'; then
    tail -n 20 "$log" >&2
    echo "venv: pip failed (above; all of it: $log). What needs $venv is skipped until this works:" \
        "scripts/venv.sh $venv" >&2
    exit 1
fi
echo "$stamp" >"$venv/stamp"
echo "venv: $(du -sh "$venv" | cut -f 1) in $((SECONDS - began)) s"
