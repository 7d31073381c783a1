"""A script that does not want to go: it and its descendants ignore SIGTERM, one of them has left
its group and session, one its parents too, one its environment. Their pids are in
$E2E_DIR/stubborn.NODE.json before it goes on as report.py."""
import os
import signal
import sys
import time

import report

WAYS = ('child', 'setsid', 'double', 'bare')


def become(way, pipe):
    """In a child: leaves in this way, says its pid, and stays."""
    if way != 'child':
        os.setsid()
    if way in ('double', 'bare') and os.fork() != 0:
        os._exit(0)
    os.write(pipe, f'{way} {os.getpid()}\n'.encode())
    if way == 'bare':  # Without the environment by which its agent could know it.
        stay = '__import__("time").sleep(120)'  # Should all else fail.
        os.execve(sys.executable, [sys.executable, '-SEc', stay], {})
    while True:
        time.sleep(9)


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    out, into = os.pipe()
    for way in WAYS:
        if os.fork() == 0:
            become(way, into)
    pids = {'self': os.getpid()}
    with os.fdopen(out, encoding='ascii') as lines:
        while len(pids) <= len(WAYS):
            way, pid = lines.readline().split()
            pids[way] = int(pid)
    report.write(f'stubborn.{os.environ["MUSTER_NODE"]}', pids)
    report.main()


if __name__ == '__main__':
    main()
