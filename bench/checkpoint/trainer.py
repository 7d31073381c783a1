"""saves.c: what its workers have measured."""
import os
import subprocess

from control.process import LONG, Failed, environment


def run(programs, folder, workers, *words):
    """What the first wrote: a list of words for each line. One worker needs no agent."""
    out = f'{folder}/out'
    env = {'MUSTER_CKPT_DIR': f'{folder}/ckpt', 'MUSTER_CKPT_KEEP': '1'}
    command = [programs['saves'], words[0], out, *map(str, words[1:])]
    if workers > 1:
        command = [programs['muster'], 'run', '--standalone', '--mode', 'inprocess', '--nproc-per-node',
                   str(workers), '--ckpt-dir', f'{folder}/ckpt', '--ckpt-keep', '1', '--', *command]
        env = {}
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=5 * LONG, text=True, env=environment(folder, **env))
    if done.returncode != 0:
        raise Failed(f'saves {" ".join(map(str, words))} ended with {done.returncode}: {done.stdout[-2000:]}')
    with open(out, encoding='ascii') as file:
        return [line.split() for line in file]
