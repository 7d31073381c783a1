"""Small disks, and machines that are not there: in a mount namespace of a test alone."""
import os
import subprocess
import sys

import tap

OWN = 'E2E_OWN_MOUNTS'  # "1": this process may mount; "0": it can't, as was found out.
BOOT_ID = '/proc/sys/kernel/random/boot_id'


def enter():
    """Goes on as a process that may mount, if there is a way; what it mounts goes with it."""
    if OWN in os.environ:
        return
    for way in (['unshare', '--mount'], ['unshare', '--map-root-user', '--mount']):
        if subprocess.run([*way, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[OWN] = '1'
            os.execvp(way[0], [*way, sys.executable, *sys.argv])
    os.environ[OWN] = '0'


def small_disk(world, name, size):
    """A folder of this world that has room for so much."""
    path = os.path.join(world.dir, name)
    if os.environ[OWN] != '1':
        tap.skip('mounting a small file system is not permitted here')
    os.mkdir(path, 0o700)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=0700', 'tmpfs', path], check=True)
    world.last.append(lambda: subprocess.run(['umount', path], check=True))
    return path


def grow(disk, size):
    subprocess.run(['mount', '-o', f'remount,size={size}', disk], check=True)


def fill(disk):
    """To the last byte."""
    fd = os.open(os.path.join(disk, 'filler'), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    n = 65536
    while n > 0:
        try:
            os.write(fd, bytes(n))
        except OSError:
            n //= 2
    os.close(fd)


def make_room(disk):
    path = os.path.join(disk, 'filler')
    os.truncate(path, 0)  # A process that another case is about to start may hold it for a moment.
    os.unlink(path)


def host(world, number):
    """Words before a node's command, with which it takes itself for one on another machine: what tells
    machines apart is the kernel's boot id."""
    path = os.path.join(world.dir, f'boot_id.{number}')
    with open(path, 'w', encoding='ascii') as file:
        file.write(f'00000000-0000-0000-0000-{number:012}\n')
    before = ('unshare', '--mount', 'sh', '-c', f'mount --bind {path} {BOOT_ID} && exec "$@"', 'sh')
    if os.environ[OWN] != '1' or subprocess.run([*before, 'true'], check=False,
                                                stderr=subprocess.DEVNULL).returncode != 0:
        tap.skip('a boot id of its own is not permitted here')
    return before


def over(folder, path):
    """Words before a node's command, for which that folder is at the path, as in a container."""
    if os.environ[OWN] != '1':
        tap.skip('mounting a folder over another is not permitted here')
    return ('unshare', '--mount', 'sh', '-c', f'mount --bind {folder} {path} && exec "$@"', 'sh')
