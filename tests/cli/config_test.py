#!/usr/bin/env python3
"""`muster config` and `muster resize` against a real orchestrator with a real node.

usage: config_test.py MUSTER
"""
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import kit
import tap

FAILED, USAGE, NOT_FOUND, CONFLICT = 1, 2, 5, 6


@contextlib.contextmanager
def job():
    """An orchestrator with a job of one node, that could be two."""
    with kit.serving('--join-window', '0.1') as serve, kit.node(serve, 'a'):
        kit.wait_status(serve, lambda job: kit.nodes_of(job) == ['a'])
        yield serve


def put_bytes(serve, key, value):
    done = subprocess.run([kit.MUSTER, 'config', 'put', key, '-'], input=value, check=True,
                          stdout=subprocess.PIPE, timeout=kit.LONG, env=env_of(serve))
    return done.stdout.decode()


def env_of(serve):
    return kit.clean_env(serve.home, MUSTER_ENDPOINT=f'127.0.0.1:{serve.port}')


def test_a_setting_is_put_read_listed_and_removed():
    with job() as serve:
        assert serve.ask('config', 'list') == (0, 'job default has no settings\n', '')
        assert serve.ask('config', 'put', 'lr/base', '0.1') == (0, 'lr/base is at version 1\n', '')
        assert serve.ask('config', 'put', 'lr/base', '--', '-1')[0] == 0
        assert serve.ask('config', 'get', 'lr/base') == (0, '-1\n', '')
        assert serve.ask('config', 'get', '--raw', 'lr/base') == (0, '-1', '')
        assert serve.ask('config', 'put', 'other', '')[0] == 0
        assert serve.ask('config', 'list') == \
            (0, 'lr/base  version 2  -1\nother  version 3\n', '')
        assert serve.ask('config', 'list', 'lr') == (0, 'lr/base  version 2  -1\n', '')
        _, out, _ = serve.ask('config', 'list', '--json')
        assert [json.loads(line) for line in out.splitlines()] == \
            [{'job': 'default', 'key': 'lr/base', 'version': 2, 'value': '-1'},
             {'job': 'default', 'key': 'other', 'version': 3, 'value': ''}], out
        assert serve.ask('config', 'rm', 'other') == (0, 'other is removed (version 4)\n', '')
        status, out, err = serve.ask('config', 'get', 'other')
        assert (status, out) == (NOT_FOUND, '') and 'no setting other' in err, err
        assert serve.ask('config', 'rm', 'other')[0] == NOT_FOUND
        status, _, err = serve.ask('config', 'get', 'lr/base', '--job', 'nope')
        assert status == NOT_FOUND and "no job 'nope'" in err, err


def test_any_bytes_are_a_value():
    value = bytes(range(256)) * 256
    with job() as serve:
        assert put_bytes(serve, 'all', value) == 'all is at version 1\n'
        got = subprocess.run([kit.MUSTER, 'config', 'get', '--raw', 'all'], check=True,
                             stdout=subprocess.PIPE, env=env_of(serve)).stdout
        assert got == value
        _, out, _ = serve.ask('config', 'get', '--json', 'all')
        assert base64.b64decode(json.loads(out)['value_base64']) == value
        status, out, _ = serve.ask('config', 'list')
        assert status == 0 and out.isprintable() is False and out.count('\n') == 1, out
        assert '\\x00\\x01' in out and '(65536 bytes)' in out and '\x1b' not in out, out
        put_bytes(serve, 'lines', 'é\n\\'.encode())
        assert serve.ask('config', 'list', 'lines')[1] == 'lines  version 2  é\\n\\\\\n'
        done = subprocess.run([kit.MUSTER, 'config', 'put', 'more', '-'], input=value + b'1',
                              stderr=subprocess.PIPE, check=False, env=env_of(serve))
        assert done.returncode == USAGE and b'64 KiB' in done.stderr, done


def test_who_is_second_is_told_so():
    with job() as serve:
        assert serve.ask('config', 'put', '--create', 'k', '1')[0] == 0
        for words in (('put', '--create', 'k', '2'), ('put', '--if-version', '7', 'k', '2'),
                      ('rm', '--if-version', '7', 'k'), ('put', '--if-version', '1', 'new', '2')):
            status, out, err = serve.ask('config', *words)
            assert (status, out) == (CONFLICT, '') and 'version' in err, (words, err)
        assert serve.ask('config', 'put', '--if-version', '1', 'k', '2', '--json') == \
            (0, '{"key":"k","version":2,"value":"2","job":"default"}\n', '')
        assert serve.ask('config', 'rm', '--if-version', '2', 'k', '--json') == \
            (0, '{"key":"k","version":3,"job":"default","deleted":true}\n', '')


def test_a_job_is_resized():
    with job() as serve, kit.node(serve, 'b'):
        kit.wait_status(serve, lambda job: len(job['members']) == 2)
        assert serve.ask('resize', '1') == (0, 'job default is to have 1 node\n', '')
        kit.wait_status(serve, lambda job: kit.nodes_of(job) == ['a'] and
                        [node['node'] for node in job['waiting']] == ['b'])
        status, out, err = serve.ask('resize', '3')
        assert (status, out) == (USAGE, '') and 'not from 1 to 2' in err, err
        for _ in range(2):  # The second time there is nothing to remove.
            status, out, err = serve.ask('resize', 'auto')
            assert (status, err) == (0, '') and 'as many nodes as there are' in out, (out, err)
        kit.wait_status(serve, lambda job: len(job['members']) == 2)
        assert serve.ask('config', 'put', 'members', 'b')[0] == 0
        kit.wait_status(serve, lambda job: kit.nodes_of(job) == ['b'])
        status, _, err = serve.ask('resize', '2')
        assert status == 0 and 'muster config rm members' in err, err
        assert serve.ask('resize', 'auto', '--job', 'nope')[0] == NOT_FOUND
        assert serve.ask('resize', '1', '--job', 'nope')[0] == NOT_FOUND


class Watch:
    """`muster config watch`, line by line."""

    def __init__(self, serve, *words):
        self.bound = threading.Timer(kit.LONG, self.end)
        self.process = subprocess.Popen([kit.MUSTER, 'config', 'watch', *words], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=env_of(serve))

    def line(self):
        return self.process.stdout.readline()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()

    def __enter__(self):
        self.bound.start()
        return self

    def __exit__(self, *_):
        self.bound.cancel()
        self.end()
        self.process.communicate()


def test_a_watch_shows_what_is_there_and_each_change():
    with job() as serve:
        serve.ask('config', 'put', 'k/1', 'a')
        serve.ask('config', 'put', 'k', 'b')
        with Watch(serve, 'k/', '--json') as below, Watch(serve, 'k') as one, Watch(serve) as every:
            assert json.loads(below.line())['key'] == 'k/1'
            assert one.line() == 'k  version 2  b\n'
            assert (every.line(), every.line()) == ('k  version 2  b\n', 'k/1  version 1  a\n')
            serve.ask('config', 'put', 'k/2', 'c')
            assert json.loads(below.line()) == \
                {'job': 'default', 'key': 'k/2', 'version': 3, 'value': 'c'}
            serve.ask('config', 'rm', 'k')
            assert one.line() == 'k  version 4  removed\n'
            assert (every.line(), every.line()) == ('k/2  version 3  c\n', 'k  version 4  removed\n')
            every.process.send_signal(signal.SIGINT)
            assert every.process.wait(kit.LONG) == -signal.SIGINT


def test_a_watch_outlives_its_orchestrator_and_misses_nothing():
    with kit.folder() as home:
        with kit.serving('--join-window', '0.1', home=home) as serve, kit.node(serve, 'a'):
            kit.wait_status(serve, lambda job: kit.nodes_of(job) == ['a'])
            port = serve.port
            serve.ask('config', 'put', 'k', '1')
            serve.ask('config', 'put', 'gone', '1')
            with Watch(serve) as watch:
                assert (watch.line(), watch.line()) == \
                    ('gone  version 2  1\n', 'k  version 1  1\n')
                watch.process.send_signal(signal.SIGSTOP)
                serve.ask('config', 'put', 'k', '2')
                serve.ask('config', 'rm', 'gone')
                serve.process.kill()
                serve.process.wait()
                with kit.serving(home=home, listen=f'127.0.0.1:{port}') as again:
                    again.ask('config', 'put', 'new', '1')
                    watch.process.send_signal(signal.SIGCONT)
                    lines = {watch.line() for _ in range(3)}
                    assert lines == {'k  version 3  2\n', 'gone  version 4  removed\n',
                                     'new  version 5  1\n'}, lines
                    again.ask('config', 'put', 'k', '3')
                    assert watch.line() == 'k  version 6  3\n'


def test_a_watch_whose_version_is_of_another_store_lists_anew():
    with kit.folder() as home:
        with kit.serving('--join-window', '0.1', home=home) as serve, kit.node(serve, 'a'):
            kit.wait_status(serve, lambda job: kit.nodes_of(job) == ['a'])
            for value in ('1', '2', '3'):
                serve.ask('config', 'put', 'k', value)
            watch = Watch(serve)
            assert watch.line() == 'k  version 3  3\n'
            watch.process.send_signal(signal.SIGSTOP)
            serve.process.kill()
            serve.process.wait()
        data = os.path.join(home, '.local/state/muster')
        for name in os.listdir(data):
            if name.startswith('journal'):
                os.remove(os.path.join(data, name))
        with watch, kit.serving('--join-window', '0.1', home=home,
                                listen=f'127.0.0.1:{serve.port}') as again, kit.node(again, 'b'):
            kit.wait_status(again, lambda job: kit.nodes_of(job) == ['b'])
            again.ask('config', 'put', 'new', '1')
            watch.process.send_signal(signal.SIGCONT)
            assert (watch.line(), watch.line()) == \
                ('new  version 1  1\n', 'k  version 1  removed\n')


def test_a_watch_of_no_job_or_no_key_ends_at_once():
    with job() as serve:
        assert serve.ask('config', 'watch', '--job', 'nope')[0] == NOT_FOUND
        status, _, err = serve.ask('config', 'watch', 'a//b')
        assert status == USAGE and '"a//b"' in err, err
    with kit.folder() as home:
        assert kit.muster('config', 'watch', '--endpoint', '127.0.0.1:1', home=home,
                          MUSTER_TOKEN='mu1-' + '0' * 64)[0] == kit.UNREACHABLE


if __name__ == '__main__':
    tap.run(__name__, 3, sys.argv[2:])
