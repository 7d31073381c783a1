"""Who is measured: muster in its ways, OpenMPI, Gloo. Each is a command that measures all sizes of
one path and number of ranks, and gives µs per call by size."""
import json
import os
import shutil
import subprocess

from control.process import LONG, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = '/usr/bin/python3'  # Debian's, which has Debian's torch.
CORES = len(os.sched_getaffinity(0))
UCX_TLS = {'shm': 'sm,self', 'tcp': 'tcp,self'}


def lines_of(command, env, folder):
    """Its output, by lines of JSON; it has a folder of its own for what it may leave."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=10 * LONG, check=False,
                          cwd=folder, env={**os.environ, **env, 'TMPDIR': folder})
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


class Muster:
    """`muster bench allreduce`. Limits come with it, as a second dictionary."""
    peer = False

    def __init__(self, name, program, *flags, paths=('shm', 'tcp'), sizes=None, limits=False):
        self.name = name
        self.program = program
        self.flags = flags
        self.paths = paths
        self.sizes = sizes
        self.limits = limits

    def measure(self, path, ranks, sizes, seconds, batches, folder):
        sizes = [size for size in sizes if self.sizes is None or size in self.sizes]
        out = lines_of([self.program, 'bench', 'allreduce', '--json', '--ranks', str(ranks),
                        '--transport', path, '--bytes', ','.join(map(str, sizes)),
                        '--seconds', str(seconds), '--repeats', str(batches),
                        '--limits' if self.limits else '--no-limits', *self.flags], {}, folder)
        found = {'allreduce': {}, 'limit': {}}
        for result in json.loads(out)['results']:
            found[result['kind']][result['bytes']] = result['us']
        return found['allreduce'], found['limit']


class Peer:
    """One whose program prints a line of JSON a size."""
    peer = True
    paths = ('shm', 'tcp')

    def measure(self, path, ranks, sizes, seconds, batches, folder):
        command, env = self.command(path, ranks)
        out = lines_of([*command, str(seconds), str(batches), *map(str, sizes)], env, folder)
        found = [json.loads(line) for line in out.splitlines() if line.startswith('{')]
        return {result['bytes']: result['us'] for result in found}, {}


class Mpi(Peer):
    """OpenMPI; with UCX if `ucx`."""

    def __init__(self, name, program, ucx):
        self.name = name
        self.program = program
        self.ucx = ucx

    def command(self, path, ranks):
        """Ranks on cores of their own if there are enough, or else such that they make way."""
        command = ['mpirun', '-np', str(ranks)]
        if ranks <= CORES:
            command += ['--bind-to', 'core']
        else:
            command += ['--oversubscribe', '--bind-to', 'none', '--mca', 'mpi_yield_when_idle', '1']
        env = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        if self.ucx:
            # It takes no part unless it is told that any device will do.
            command += ['--mca', 'pml', 'ucx', '--mca', 'pml_ucx_tls', 'any', '--mca',
                        'pml_ucx_devices', 'any', '--mca', 'osc', 'ucx']
            env['UCX_TLS'] = UCX_TLS[path]
        elif path == 'tcp':
            command += ['--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self', '--mca',
                        'btl_tcp_if_include', 'lo']
        return [*command, self.program], env


class Gloo(Peer):
    """It has TCP alone, and so on one machine too."""
    name = 'Gloo'

    def command(self, path, ranks):
        return [PYTHON, f'{HERE}/gloo_allreduce.py', str(ranks)], {}


def build_mpi(folder):
    program = f'{folder}/mpi_allreduce'
    subprocess.run(['mpicc', '-O2', f'{HERE}/mpi_allreduce.c', '-o', program], check=True)
    return program


def has_gloo():
    done = subprocess.run([PYTHON, '-c', 'import torch.distributed as d; d.is_gloo_available() or '
                                         'exit(1)'], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def find(muster, folder, agreed_size):
    """All that are here, and whom they lack."""
    ours = [Muster('muster, mu_alloc', muster, limits=True),
            Muster('muster, ordinary buffers', muster, '--plain-buffers'),
            Muster('muster, mu_alloc, agreed', muster, '--agree', paths=('shm',),
                   sizes=(agreed_size,))]
    peers, missing = [], []
    if shutil.which('mpicc') and shutil.which('mpirun'):
        program = build_mpi(folder)
        peers += [Mpi('OpenMPI', program, False), Mpi('OpenMPI, UCX', program, True)]
    else:
        missing.append('OpenMPI')
    if has_gloo():
        peers.append(Gloo())
    else:
        missing.append('Gloo')
    return ours, peers, missing


def about_mpi():
    """Its version, and how it copies between processes."""
    if not shutil.which('ompi_info'):
        return {}
    version = subprocess.run(['ompi_info', '--version'], stdout=subprocess.PIPE, text=True,
                             check=False).stdout.split('\n')[0]
    text = subprocess.run(['ompi_info', '--param', 'btl', 'vader', '--level', '9', '--parsable'],
                          stdout=subprocess.PIPE, text=True, check=False).stdout
    copies = [line.rsplit(':', 1)[-1] for line in text.splitlines()
              if 'vader_single_copy_mechanism:value' in line]
    return {'openmpi': version, 'openmpi_single_copy': copies[0] if copies else '?'}
