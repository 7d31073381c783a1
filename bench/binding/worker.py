#!/usr/bin/env python3
"""A worker that makes all-reduces of 4 KB, blocks of them from C and from Python in turn.

usage: worker.py EXTENSION OUT WORLD CALLS ROUNDS

EXTENSION is the one of muster with loop.c inside. Rank 0 writes to OUT a line for each block: its name, and
the µs of each call.
"""
import array
import ctypes
import importlib.util
import sys
import time

PATH, OUT, WORLD, CALLS, ROUNDS = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
COUNT = 1024


class Finder:
    """muster._muster is ours."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, PATH) if name == 'muster._muster' else None


sys.meta_path.insert(0, Finder)
import muster  # noqa: E402  pylint: disable=wrong-import-position

loop = ctypes.CDLL(PATH).bench_loop
loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32,
                 ctypes.c_void_p]


def from_c(run, x, out, us):
    handle = ctypes.c_void_p.from_address(id(run.core) + object.__basicsize__).value  # struct run: mu
    rc = loop(handle, x.buffer_info()[0], out.buffer_info()[0], COUNT, CALLS, us.buffer_info()[0])
    assert rc == 0, rc


def from_python(run, x, out, us):
    clock = time.perf_counter
    for i in range(CALLS):
        begin = clock()
        run.allreduce(x, out)
        us[i] = (clock() - begin) * 1e6


def from_extension(run, x, out, us):
    make = run.core.make
    clock = time.perf_counter
    for i in range(CALLS):
        begin = clock()
        make(0, x, out)
        us[i] = (clock() - begin) * 1e6


def main():
    run = muster.join()
    run.wait()
    while run.size < WORLD:
        run.wait(run.generation)
    run.regroup()
    x, out, us = array.array('f', [1.0] * COUNT), array.array('f', [0.0] * COUNT), array.array('d', [0.0] * CALLS)
    blocks = {'c': from_c, 'extension': from_extension, 'python': from_python}
    lines = []
    for number in range(ROUNDS + 1):
        names = list(blocks)
        for name in names[number % 3:] + names[:number % 3]:
            run.meet()
            blocks[name](run, x, out, us)
            assert out[0] == WORLD
            if number > 0:  # The first round is not written down.
                lines.append(f'{name} {" ".join(f"{one:.3f}" for one in us)}\n')
    if run.rank == 0:
        with open(OUT, 'w', encoding='ascii') as file:
            file.writelines(lines)
    run.meet()


main()
