#!/usr/bin/env python3
"""examples/torch/elastic.py as it is, which writes down when its steps were done; see recovery/marks.py.

usage: elastic_marked.py FOLDER NODE [ARGUMENT...]
"""
import os
import runpy
import sys
import time

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples/torch/elastic.py')


def main():
    folder, node = sys.argv[1:3]
    fd = os.open(f'{folder}/{node}.{os.getpid()}.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f'start {time.monotonic_ns()}\n'.encode())

    import muster.torch  # pylint: disable=import-outside-toplevel
    join = muster.torch.join

    def join_marked(*things, **settings):
        run = join(*things, **settings)
        place = [0, -1, 0]

        @run.on_generation
        def _moved(_before, now):
            place[:] = now

        @run.after_step
        def _done(step):
            ns = time.monotonic_ns()
            os.write(fd, f'step {ns} {ns} {ns} {place[0]} {step} {place[1]} {place[2]}\n'.encode())

        return run

    muster.torch.join = join_marked
    sys.argv[:] = [EXAMPLE, *sys.argv[3:]]
    runpy.run_path(EXAMPLE, run_name='__main__')


main()
