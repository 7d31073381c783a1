"""For scripts of tests: where a run stops until the test lets it go on, see Cluster.limit(), and how it begins.

    together(run, 3)    # Three workers are there.
    gate(step)          # before a slice, or whatever a step has, is computed

Without a test that says so, as when a script is run alone, nothing stops.
"""
import os
import time

import muster

LOOK_S = 0.001
_folder = os.environ.get('GATE_DIR')


def _limit():
    with open(os.path.join(_folder, 'limit'), encoding='ascii') as file:
        return int(file.read())


def gate(step):
    """Waits until steps of that number may be computed. Meanwhile a file says that this process stands here, and in
    which generation."""
    if _folder is None or step <= _limit():
        return
    mine = os.path.join(_folder, str(os.getpid()))
    with open(mine + '.new', 'w', encoding='ascii') as file:
        file.write(f'{step} {muster.current().core.group()[0]}')
    os.rename(mine + '.new', mine)
    while step > _limit():
        time.sleep(LOOK_S)
    os.unlink(mine)


def together(run, n):
    """Waits until this worker is in a generation of at least n."""
    world = run.wait()
    while world.size < n:  # One look at both: a generation that comes between two looks would be waited for in vain.
        world = run.wait(world.generation)
    return world
