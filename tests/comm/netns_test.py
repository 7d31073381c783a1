#!/usr/bin/env python3
"""Two hosts made of network namespaces, two ranks on each: shared memory within, TCP between.

usage: netns_test.py COMM_NETNS COMM_IDLE
"""
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap  # pylint: disable=wrong-import-position

PROGRAM, IDLE = sys.argv[1:3]
LONG_S = 120  # against hanging only


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

    def cut(self, is_cut=True):
        """Nothing that the first one says arrives any more; nobody is told."""
        self.need('-n', self.names[0], 'route', 'add' if is_cut else 'delete', 'blackhole', self.addresses[1])

    def places(self, sides):
        return [word for side in sides for word in (f'/run/netns/{self.names[side]}', self.addresses[side])]

    def run(self, one_id, ranks):
        args = [PROGRAM, '1' if one_id else '0', *self.places(ranks)]
        env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT='STDOUT')
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=1200, env=env)
        assert done.returncode == 0, done.stdout


def on_hosts(test):
    if os.geteuid() != 0:
        tap.skip('network namespaces need root')
    try:
        with Hosts() as hosts:
            test(hosts)
    except FileNotFoundError as missing:
        tap.skip(f'{missing.filename} is not here')


def test_results_are_exact_on_two_hosts_with_two_ranks_each():
    on_hosts(lambda hosts: hosts.run(False, [0, 0, 1, 1]))


def test_ranks_of_two_hosts_may_alternate():
    on_hosts(lambda hosts: hosts.run(False, [0, 1, 0, 1]))


def test_those_that_cannot_share_memory_although_their_host_is_one_use_tcp():
    on_hosts(lambda hosts: hosts.run(True, [0, 0, 1, 1]))


def idle(hosts):
    with subprocess.Popen([IDLE, *hosts.places([0, 1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        watch = threading.Timer(LONG_S, process.kill)
        watch.start()
        try:
            assert process.stdout.readline() == 'linked\n'
            hosts.cut()
            assert process.stdout.readline() == 'lost\n'
            hosts.cut(False)
            assert process.stdout.readline() == 'linked\n'
        finally:
            watch.cancel()
            process.stdin.close()
    assert process.returncode == 0


def test_a_link_that_nobody_sends_on_is_lost_with_its_host_and_made_again():
    on_hosts(idle)


if __name__ == '__main__':
    tap.run(__name__)
