"""Files that are written and read with nothing but dd, and what is done to be fair to everybody."""
import glob
import os
import shutil
import subprocess
import time

from control.process import LONG, Failed


def shards(folder):
    """Of the newest checkpoint, whatever its job is called."""
    found = sorted(glob.glob(f'{folder}/*/step-*'))
    if not found:
        raise Failed(f'there is no checkpoint in {folder}')
    return sorted(glob.glob(f'{found[-1]}/shard-*'))


def forget(paths):
    """They are on the disk, and no longer in memory."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def remove(pattern):
    for path in glob.glob(pattern):
        shutil.rmtree(path)


def size(paths):
    return sum(os.path.getsize(path) for path in paths)


def dd(*words):
    """Seconds."""
    began = time.monotonic()
    subprocess.run(['dd', 'bs=4M', 'status=none', *words], check=True, timeout=LONG)
    return time.monotonic() - began


def written_s(path, to, *words):
    """A file that is in memory, once more on the disk. As of checkpoints, the one before goes when this one is
    there. It still goes back and forth between two places, which a virtual disk may reward."""
    took = dd(f'if={path}', f'of={to}.new', 'conv=fsync', *words)
    os.rename(f'{to}.new', to)
    return took


def read_s(paths, *words):
    forget(paths)
    return sum(dd(f'if={path}', 'of=/dev/null', *words) for path in paths)
