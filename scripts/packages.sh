#!/bin/bash
# Makes sure that the Debian packages for a purpose are there: scripts/packages/PURPOSE.txt.
# Silent when nothing is missing.
#
# usage: scripts/packages.sh build|test|bench
set -euo pipefail

cd "$(dirname "$0")/packages"
purpose=${1-}
if [[ -z $purpose || ! -f $purpose.txt ]]; then
    echo "usage: scripts/packages.sh $(ls -- *.txt | sed 's/\.txt$//' | paste -sd '|')" >&2
    exit 2
fi

# A line is a package, "@PURPOSE" to take in another list, or a comment.
list() {
    local line
    while read -r line _; do
        case $line in
        '' | '#'*) ;;
        @*) list "${line#@}" ;;
        *) echo "$line" ;;
        esac
    done <"$1.txt"
}
mapfile -t wanted < <(list "$purpose" | sort -u)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # Not Debian: its names are a hint, and the tools may well be there under others.
    tools=(cc meson ninja pkg-config python3)
    [[ $purpose == test ]] && tools+=(clang)
    for tool in "${tools[@]}"; do
        if ! command -v "$tool" >/dev/null; then
            echo "packages: to $purpose muster, install what Debian calls: ${wanted[*]}" >&2
            echo "packages: ($tool was not found)" >&2
            exit 1
        fi
    done
    exit 0
fi

declare -A installed=()
while read -r package status; do
    [[ $status == installed ]] && installed[$package]=1
done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)

missing=()
for package in "${wanted[@]}"; do
    [[ -n ${installed[$package]-} ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if ((EUID != 0)); then
    echo "packages: to $purpose muster, run this first: sudo ${install[*]}" >&2
    exit 1
fi

echo "packages: installing what is missing to $purpose muster: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && "${install[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "packages: apt-get failed (above); run it by hand: ${install[*]}" >&2
    exit 1
fi
