#!/bin/sh
# Python for an extension that is built with sanitizers: their runtime comes first. Only what is found in
# this process counts, so what it starts gets an environment of its own; Python itself keeps memory at the end.
LD_PRELOAD=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")
ASAN_OPTIONS=detect_leaks=0
export LD_PRELOAD ASAN_OPTIONS
exec /usr/bin/python3 "$@"
