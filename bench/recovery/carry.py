"""How fast the transport carries bytes between two workers; see carry.c."""
import os
import statistics
import subprocess

from control.process import LONG, Failed, environment


def bandwidth(programs, folder, path, bytes_n, times):
    """Bytes a second, the median."""
    os.makedirs(folder)
    out = f'{folder}/rates'
    done = subprocess.run(
        [programs['muster'], 'run', '--standalone', '--nproc-per-node', '2', '--',
         programs['carry'], out, str(bytes_n), str(times)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        timeout=LONG, text=True, env=environment(folder, MUSTER_TRANSPORT=path))
    if done.returncode != 0:
        raise Failed(f'carry ended with {done.returncode}: {done.stdout[-2000:]}')
    with open(out, encoding='ascii') as rates:
        return statistics.median(float(line) for line in rates)
