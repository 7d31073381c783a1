#!/usr/bin/env python3
"""Two hosts made of network namespaces, two ranks on each: shared memory within, TCP between.

usage: netns_test.py COMM_NETNS
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap  # pylint: disable=wrong-import-position

PROGRAM = sys.argv[1]


def ip(*args):
    return subprocess.run(['ip', *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=60)


class Hosts:
    """Two namespaces and a cable; gone at the end, whatever happens."""

    def __init__(self):
        self.names = [f'mu{os.getpid()}{side}' for side in 'ab']
        self.addresses = ['10.213.77.1', '10.213.77.2']

    def need(self, *args):
        done = ip(*args)
        if done.returncode != 0:
            tap.skip(f'no network namespaces here: ip {" ".join(args)}: {done.stdout.strip()}')

    def __enter__(self):
        try:
            for name in self.names:
                self.need('netns', 'add', name)
            self.need('link', 'add', 'mu0', 'netns', self.names[0], 'type', 'veth', 'peer', 'name',
                      'mu0', 'netns', self.names[1])
            for name, address in zip(self.names, self.addresses):
                self.need('-n', name, 'address', 'add', f'{address}/24', 'dev', 'mu0')
                self.need('-n', name, 'link', 'set', 'mu0', 'up')
                self.need('-n', name, 'link', 'set', 'lo', 'up')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            ip('netns', 'delete', name)

    def run(self, one_id, ranks):
        args = [PROGRAM, '1' if one_id else '0']
        for side in ranks:
            args += [f'/run/netns/{self.names[side]}', self.addresses[side]]
        env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT='STDOUT')
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=1200, env=env)
        assert done.returncode == 0, done.stdout


def run(one_id, ranks):
    if os.geteuid() != 0:
        tap.skip('network namespaces need root')
    try:
        with Hosts() as hosts:
            hosts.run(one_id, ranks)
    except FileNotFoundError as missing:
        tap.skip(f'{missing.filename} is not here')


def test_results_are_exact_on_two_hosts_with_two_ranks_each():
    run(False, [0, 0, 1, 1])


def test_ranks_of_two_hosts_may_alternate():
    run(False, [0, 1, 0, 1])


def test_those_that_cannot_share_memory_although_their_host_is_one_use_tcp():
    run(True, [0, 0, 1, 1])


if __name__ == '__main__':
    tap.run(__name__)
