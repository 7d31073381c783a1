#!/usr/bin/env python3
"""`muster ckpt … orchestrator:`: the same words and the same bytes as with a folder.

usage: depot_cli_test.py MUSTER CKPT_MAKE [CASE…]
"""
import json
import os
import socket
import subprocess
import sys
import threading

import kit
import web

MAKE = os.path.abspath(sys.argv.pop(2))
FAILED, UNREACHABLE, DENIED, NOT_FOUND = 1, 3, 4, 5
CHUNK = 4 << 20
CHUNKS = 8  # of one that is disturbed
PLACE = 'orchestrator:'
PARTS = {'weights': CHUNK + 4000, 'bias': 400, 'odd': 13, 'empty': 0}
STEPS = (90, 1000, 1200)


class Relay:
    """Between a command and its orchestrator. It passes on so many bytes, whichever way they go, and holds the
    rest back until `go` is set; that it does so is what `held` says."""

    def __init__(self, orchestrator, n):
        self.orchestrator = orchestrator
        self.left = n
        self.held = threading.Event()
        self.go = threading.Event()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.where = '127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        self.listener.close()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # Closed.
                return
            try:
                server = socket.create_connection(('127.0.0.1', self.orchestrator.port))
            except OSError:
                client.close()
                continue
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, from_, to):
        try:
            while data := from_.recv(65536):
                self.left -= len(data)
                if self.left < 0 and not self.go.is_set():
                    self.held.set()
                    self.go.wait()
                to.sendall(data)
        except OSError:
            pass
        for end in (from_, to):  # Whoever waits for it hears of that too.
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start_make(orchestrator, where, job, step, how='plain', parts=None, by=None):
    return subprocess.Popen([MAKE, where, job, str(step), '1', how,
                             *(f'{name}={n}' for name, n in (parts or PARTS).items())],
                            env=orchestrator.world.env(MUSTER_ENDPOINT=by or orchestrator.where,
                                                       MUSTER_TOKEN_FILE=orchestrator.token_file))


def make(*words, **how):
    assert start_make(*words, **how).wait(kit.LONG_S) == 0, words


def both(world):
    """An orchestrator that keeps a few checkpoints, and a folder with the same."""
    orchestrator = world.orchestrator()
    folder = os.path.join(world.dir, 'folder')
    for where in (PLACE, folder):
        for step in STEPS:
            make(orchestrator, where, 'a', step)
        make(orchestrator, where, 'b.2', 7, how='zstd')
    return orchestrator, folder


def shard(orchestrator, step):
    return os.path.join(orchestrator.data, 'ckpt', 'a', f'step-{step:012}', 'shard-0000')


def read_all(path):
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), 'rb') as file:
                found[name] = file.read()
    return found


def test_what_is_said_is_what_is_said_of_a_folder():
    with kit.World() as world:
        orchestrator, folder = both(world)
        for words in (('ls',), ('ls', '--json'), ('ls', '+', 'a'), ('ls', '+', 'b.2', '--json'),
                      ('show', '+', 'a'), ('show', '+', 'a', '90'), ('show', '+', 'b.2', '--json'),
                      ('verify', '+', 'a', '--all'), ('verify', '+', 'b.2', '--json'),
                      ('show', '+', 'c'), ('verify', '+', 'a', '91'), ('rm', '+', 'a', '91')):
            said = []
            for where in (PLACE, folder):
                line = [where if word == '+' else word for word in words]
                if where not in line:
                    line.append(where)
                code, out, err = orchestrator.ask('ckpt', *line)
                said.append((code, out, err.replace(folder, PLACE)))
            assert said[0] == said[1], said
        lines = orchestrator.say('ckpt', 'ls', PLACE, 'a', '--json').splitlines()
        assert [json.loads(line)['step'] for line in lines] == sorted(STEPS, reverse=True), lines


def test_what_is_exported_has_the_same_bytes():
    with kit.World() as world:
        orchestrator, folder = both(world)
        for job in ('a', 'b.2'):
            found = []
            for where in (PLACE, folder):
                to = os.path.join(world.dir, f'{job}-{len(found)}')
                orchestrator.say('ckpt', 'export', where, job, '--raw', '--to', to)
                orchestrator.say('ckpt', 'export', where, job, '--to', to + '.npz')
                with open(to + '.npz', 'rb') as file:
                    found.append((read_all(to), file.read()))
            assert found[0] == found[1] and len(found[0][0]) == len(PARTS), found[0][0].keys()


def test_rm_removes_but_not_the_last_one():
    with kit.World() as world:
        orchestrator, _ = both(world)
        code, _, err = orchestrator.ask('ckpt', 'rm', PLACE, 'a', *map(str, STEPS))
        assert code == FAILED and 'would have no checkpoint left' in err, err
        out = orchestrator.say('ckpt', 'rm', PLACE, 'a', '90', '1200')
        assert out.count(' is removed (') == 2, out
        kept = orchestrator.say('ckpt', 'ls', PLACE, 'a', '--json').splitlines()
        assert [json.loads(line)['step'] for line in kept] == [1000], kept
        orchestrator.say('ckpt', 'rm', PLACE, 'a', '1000', '--force')
        code, _, err = orchestrator.ask('ckpt', 'ls', PLACE, 'a')
        assert code == NOT_FOUND and 'those of b.2' in err, err


def test_damage_is_named_and_so_is_the_one_before():
    with kit.World() as world:
        orchestrator, _ = both(world)
        kit.flip(shard(orchestrator, 1200), CHUNK + 3)
        code, _, err = orchestrator.ask('ckpt', 'verify', PLACE, 'a')
        assert code == FAILED, err
        assert 'orchestrator:/a/step-000000001200/shard-0000 is damaged: chunk 1 ' in err, err
        assert 'the one before it is step 1000' in err, err
        os.truncate(shard(orchestrator, 1000), CHUNK)
        code, _, err = orchestrator.ask('ckpt', 'verify', PLACE, 'a', '1000')
        assert code == FAILED and 'is damaged' in err, err
        os.remove(os.path.join(os.path.dirname(shard(orchestrator, 90)), 'manifest'))
        out = orchestrator.say('ckpt', 'ls', PLACE, 'a')
        assert 'damaged: shard-0000 is damaged: it has ' in out, out  # Of 1200 the length is right.
        assert 'damaged: manifest is missing' in out and out.count('damaged: ') == 3, out
        code, _, err = orchestrator.ask('ckpt', 'export', PLACE, 'a', '1200', '--to',
                                        os.path.join(world.dir, 'x.npz'))
        assert code == FAILED and not os.path.exists(os.path.join(world.dir, 'x.npz')), err


def test_an_orchestrator_that_comes_back_is_waited_for():
    """Killed in the middle of an export, which goes on."""
    with kit.World() as world:
        orchestrator = world.orchestrator()
        make(orchestrator, PLACE, 'a', 5, parts={'w': CHUNKS * CHUNK})
        to = os.path.join(world.dir, 'out')
        with Relay(orchestrator, 3 * CHUNK) as relay:
            command = subprocess.Popen(
                [kit.MUSTER, 'ckpt', 'export', PLACE, 'a', '--raw', '--to', to, '--timeout', '60',
                 '--endpoint', relay.where, '--token-file', orchestrator.token_file],
                env=world.env(), stdout=subprocess.DEVNULL)
            assert relay.held.wait(kit.LONG_S), 'less was exported'
            orchestrator.restart()
            relay.go.set()
            assert command.wait(kit.LONG_S) == 0
        assert os.path.getsize(os.path.join(to, 'w')) == CHUNKS * CHUNK


def test_what_is_put_goes_on_when_the_orchestrator_comes_back():
    """Killed when a part of it is there: only the rest is sent to the next."""
    with kit.World() as world:
        orchestrator = web.serve(world)
        coming = os.path.join(orchestrator.data, 'ckpt', 'a', f'.step-{5:012}.intake', 'shard-0000')
        with Relay(orchestrator, 5 * CHUNK) as relay:
            command = start_make(orchestrator, PLACE, 'a', 5, parts={'w': CHUNKS * CHUNK}, by=relay.where)
            kit.wait_until(lambda: os.path.exists(coming) and os.path.getsize(coming) >= 4 * CHUNK,
                           'a few chunks were there')
            assert relay.held.wait(kit.LONG_S), 'less was put'
            orchestrator.kill9()
            there = os.path.getsize(coming) // CHUNK - 1  # The last may be cut, or have no record.
            orchestrator.start()
            relay.go.set()
            assert command.wait(kit.LONG_S) == 0
        orchestrator.say('ckpt', 'verify', PLACE, 'a')
        received = orchestrator.web.metrics()['muster_checkpoint_received_bytes_total']
        assert 0 < received <= (CHUNKS - there) * CHUNK, (received, there)


def test_nobody_there_and_the_wrong_token_are_told():
    with kit.World() as world:
        orchestrator = world.orchestrator()
        other = os.path.join(world.dir, 'other')
        with open(other, 'w', encoding='utf-8') as file:
            file.write('1' * 64 + '\n')
        os.chmod(other, 0o600)
        done = subprocess.run([kit.MUSTER, 'ckpt', 'ls', PLACE, '--endpoint', orchestrator.where,
                               '--token-file', other], env=world.env(), check=False,
                              capture_output=True, text=True, timeout=kit.LONG_S)
        assert done.returncode == DENIED, done.stderr
        orchestrator.kill9()
        code, _, err = orchestrator.ask('ckpt', 'ls', PLACE)
        assert code == UNREACHABLE and 'muster serve' in err, err


def test_where_nothing_is_kept_that_is_said():
    with kit.World() as world:
        orchestrator = world.orchestrator()
        assert orchestrator.say('ckpt', 'ls', PLACE) == 'no checkpoints in orchestrator:\n'
        code, _, err = orchestrator.ask('ckpt', 'show', PLACE, 'a')
        assert code == NOT_FOUND and 'no checkpoints of job a' in err, err


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
