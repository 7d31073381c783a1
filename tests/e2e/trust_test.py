#!/usr/bin/env python3
"""Whoever does not know the token, or talks nonsense, is refused, counted and told in the log, and disturbs
nobody: a job runs through each of these cases with the same generation and the same processes.

usage: trust_test.py MUSTER [CASE…]
"""
import contextlib
import os
import resource
import secrets
import shutil
import socket
import stat
import subprocess
import time

import kit
import tap
from kit import SERVE

STRANGER = os.path.join(os.environ.get('E2E_PROGRAMS', ''), 'stranger')
REASONS = ('refused', 'timed_out', 'shed', 'broken', 'unread')


def other_token(world):
    path = os.path.join(world.dir, 'other-token')
    write_token(path, 'mu1-' + secrets.token_hex(32))
    return path


def write_token(path, text, mode=0o600):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, 'w', encoding='ascii') as file:
        file.write(text + '\n')


def token_of(orchestrator):
    with open(orchestrator.token_file, encoding='ascii') as file:
        return file.read().strip()


def counts(orchestrator):
    return orchestrator.own_status()['connections']


@contextlib.contextmanager
def running_job(*flags):
    """An orchestrator with a job, which must not notice what happens meanwhile."""
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE, *flags)
        job = orchestrator.job(nnodes='1:2')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        yield orchestrator
        assert all(kit.lives(r['pid']) for r in before)
        status = job.status()
        assert status['generation'] == status['active'] == before[0]['generation'], status
        assert orchestrator.events(job.name, 'lost') == [], orchestrator.log()
        job.ends_well(*nodes)
        assert job.reports()[-2:] == before
        assert 'went away' not in ''.join(node.log() for node in nodes)


def counted(orchestrator, **wanted):
    """Waits until exactly this was counted, and nothing else."""
    want = {reason: wanted.get(reason, 0) for reason in REASONS}
    last = {}

    def look():
        last.update(counts(orchestrator))
        return {reason: last[reason] for reason in REASONS} == want

    try:
        kit.wait_until(look, f'this was counted: {want}')
    except AssertionError as error:
        raise AssertionError(f'{error} ({last})') from None


# ---- half a handshake, and too many: these take longest, so they come first ----

def client_hello(world):
    """What one of ours says first."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        with subprocess.Popen([kit.MUSTER, 'status', '--endpoint',
                               f'127.0.0.1:{listener.getsockname()[1]}', '--token-file',
                               other_token(world)], env=world.env(), stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as asking:
            with listener.accept()[0] as sock:
                hello = sock.recv(4096)
            asking.wait(kit.LONG_S)
    assert len(hello) > 100 and hello[0] == 22, hello
    return hello


def test_half_a_handshake_is_refused_or_timed_out():
    with running_job() as orchestrator:
        hello = client_hello(orchestrator.world)
        cuts = (1, 5, 6, len(hello) // 2, len(hello) - 1)
        waiting = [connect(orchestrator) for _ in cuts]
        for n, (cut, sock) in enumerate(zip(cuts, waiting), 1):
            sock.sendall(hello[:cut])
            with connect(orchestrator) as leaving:
                leaving.sendall(hello[:cut])
            kit.wait_until(lambda n=n: counts(orchestrator)['refused'] == n, 'it was refused')
        counted(orchestrator, refused=len(cuts), timed_out=len(cuts))
        for sock in waiting:
            is_closed(sock)
            sock.close()


def resident_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmRSS'))


def test_a_thousand_idle_connections_cost_little_and_are_timed_out():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 3000:
        tap.skip(f'only {hard} files may be open')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running_job() as orchestrator:
        before_kib = resident_kib(orchestrator.pid)
        idle = [connect(orchestrator) for _ in range(1000)]
        kit.wait_until(lambda: counts(orchestrator)['handshaking'] >= 1000, 'all were there')
        assert resident_kib(orchestrator.pid) - before_kib < 64 << 10
        done = run(orchestrator.world, orchestrator, '--job', 'second', '--token-file',
                   orchestrator.token_file)
        assert done.returncode == 0, done  # Friends are served meanwhile.
        counted(orchestrator, timed_out=1000)
        assert counts(orchestrator)['handshaking'] <= 1
        kit.wait_until(lambda: talk_http(orchestrator) or 'more like this' in orchestrator.log(),
                       'the log told how many there were')
        lines = [line for line in orchestrator.log().splitlines() if ' net: ' in line]
        assert 0 < len(lines) < 20, lines
        for sock in idle:
            sock.close()


# ---- tokens ----

def test_a_wrong_token_is_told_to_both_sides():
    with running_job() as orchestrator:
        wrong = other_token(orchestrator.world)
        for n in (1, 2):
            done = muster(orchestrator.world, 'status', '--endpoint', orchestrator.where,
                          '--token-file', wrong)
            assert done.returncode != 0, done
            assert 'the token is not the one of this orchestrator' in done.stderr, done.stderr
            assert '--token-file' in done.stderr, done.stderr
            counted(orchestrator, refused=n)
        orchestrator.wait_log('it has another token')


def test_an_agent_with_a_wrong_token_gives_up_and_says_what_to_do():
    with running_job() as orchestrator:
        done = run(orchestrator.world, orchestrator, '--token-file', other_token(orchestrator.world))
        assert done.returncode == 1, done
        assert 'the token is not the one of this orchestrator' in done.stderr, done.stderr
        assert '`muster token`' in done.stderr, done.stderr
        counted(orchestrator, refused=1)


def muster(world, *words, **env):
    return subprocess.run([kit.MUSTER, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=kit.LONG_S, env=world.env(**env),
                          cwd=world.dir)


def run(world, orchestrator, *words, **env):
    return muster(world, 'run', '--rdzv-endpoint', orchestrator.where, '--node-name', 'x', *words,
                  '/bin/true', **env)


def test_without_a_token_an_agent_says_where_it_looked():
    with running_job() as orchestrator:
        done = run(orchestrator.world, orchestrator)
        assert done.returncode == 1, done
        for text in ('MUSTER_TOKEN', '--token-file', os.path.join('state', 'muster', 'token')):
            assert text in done.stderr, done.stderr
        counted(orchestrator)  # It did not even connect.


def bad_token_files(folder):
    """(path, a word that the error has)"""
    missing = os.path.join(folder, 'missing')
    yield missing, 'No such file'
    path = os.path.join(folder, 'directory')
    os.mkdir(path, 0o700)
    yield path, 'directory'
    path = os.path.join(folder, 'open')
    write_token(path, 'mu1-' + '1' * 64)
    os.chmod(path, 0o644)
    yield path, 'chmod'
    for name, text in (('empty', ''), ('short', 'mu1-1234'), ('other', 'x' * 68)):
        path = os.path.join(folder, name)
        write_token(path, text)
        yield path, 'token'
    if os.getuid() != 0:
        path = os.path.join(folder, 'locked')
        write_token(path, 'mu1-' + '1' * 64, 0)
        yield path, 'Permission denied'


def test_a_token_file_that_cannot_be_used_is_fatal_and_named():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        good = token_of(orchestrator)
        for path, word in bad_token_files(os.path.join(world.dir, 'tmp')):
            for done in (run(world, orchestrator, '--token-file', path, MUSTER_TOKEN=good),
                         muster(world, 'status', '--endpoint', orchestrator.where, '--token-file', path),
                         muster(world, 'serve', '--listen', f'127.0.0.1:{kit.free_port()}', '--data',
                                os.path.join(world.dir, 'd'), '--token-file', path)):
                assert done.returncode in (1, 4), (path, done)
                assert path in done.stderr and word in done.stderr, (word, done)
                assert len(done.stderr.splitlines()) == 1, done.stderr
        counted(orchestrator)


def test_the_token_is_made_for_its_owner_alone_and_kept():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        token = token_of(orchestrator)
        assert stat.S_IMODE(os.stat(orchestrator.token_file).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(orchestrator.data).st_mode) == 0o700
        orchestrator.restart()
        assert token_of(orchestrator) == token
        assert muster(world, 'token', '--data', orchestrator.data).stdout.strip() == token


def test_the_token_is_in_no_log_argv_or_environment_of_a_worker():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        token = token_of(orchestrator)
        job = orchestrator.job(nnodes='2', nproc=2)
        by_file = job.node('a', '--log-dir', os.path.join(world.dir, 'logs'))
        by_variable = kit.Process(world, 'default-b')
        by_variable.spawn(['run', '--nnodes', '2', '--nproc-per-node', '2', '--mode', 'restart',
                           '--node-name', 'b', '--rdzv_endpoint', orchestrator.where,
                           by_file.script], E2E_DIR=job.dir, MUSTER_TOKEN=token)
        reports = job.settled('a', 'b')
        assert len(reports) == 4
        hex_part = token.partition('-')[2]
        for report in reports:
            assert 'MUSTER_TOKEN' not in report['env']
            for name in ('environ', 'cmdline'):
                with open(f'/proc/{report["pid"]}/{name}', 'rb') as file:
                    assert hex_part.encode() not in file.read(), (name, report['node'])
        for pid in world.pids():
            for name in ('cmdline', 'environ') if pid != by_variable.pid else ('cmdline',):
                with open(f'/proc/{pid}/{name}', 'rb') as file:
                    assert hex_part.encode() not in file.read(), (name, kit.tell(pid))
        job.ends_well(by_file, by_variable)
        orchestrator.terminate()
        for folder, _, names in os.walk(world.dir):
            for name in names:
                path = os.path.join(folder, name)
                if path != orchestrator.token_file:
                    with open(path, 'rb') as file:
                        assert hex_part.encode() not in file.read(), path


def test_listening_off_loopback_works_with_the_token_and_says_how():
    with kit.World() as world:
        orchestrator = kit.Orchestrator(world, 'serve', SERVE, {})
        orchestrator.spawn(('serve', '--listen', f'0.0.0.0:{orchestrator.port}', '--data',
                            orchestrator.data, *SERVE))
        orchestrator.wait_log('other machines need the token')
        assert orchestrator.token_file in orchestrator.log()
        assert '`muster token' in orchestrator.log() and '--token-file' in orchestrator.log()
        done = muster(world, 'status', '--endpoint', orchestrator.where, '--token-file',
                      other_token(world))
        assert done.returncode != 0 and 'token' in done.stderr, done
        job = orchestrator.job(nnodes='1')
        node = job.node('a')
        job.settled('a')
        job.ends_well(node)


# ---- other protocols ----

def connect(orchestrator):
    return socket.create_connection(('127.0.0.1', orchestrator.port), timeout=kit.LONG_S)


def is_closed(sock):
    """Reads to the end."""
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(65536):
            pass


def test_bytes_that_are_no_tls_are_refused_and_http_is_told_in_the_log():
    words = (b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'POST /jobs HTTP/1.1\r\n\r\n', b'\0' * 4096,
             b'SSH-2.0-OpenSSH_9.2p1\r\n', b'MSTR\x01\x01\x01\0' + bytes(40), secrets.token_bytes(512))
    with running_job() as orchestrator:
        for n, bytes_ in enumerate(words, 1):
            with connect(orchestrator) as sock:
                sock.sendall(bytes_)
                is_closed(sock)
            counted(orchestrator, refused=n)
            if n == 1:
                orchestrator.wait_log('it speaks HTTP')
        orchestrator.wait_log('net: refused 127.0.0.1')


def talk_http(orchestrator):
    with connect(orchestrator) as sock:
        sock.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        is_closed(sock)


def test_whoever_only_looks_whether_the_port_is_open_is_counted_and_not_worth_a_line():
    with running_job() as orchestrator:
        for n in range(1, 6):
            connect(orchestrator).close()
            counted(orchestrator, refused=n)
        assert 'refused' not in orchestrator.log(), orchestrator.log()


def s_client(orchestrator, *flags):
    if not shutil.which('openssl'):
        tap.skip('there is no openssl')
    done = subprocess.run(['openssl', 's_client', '-connect', orchestrator.where, '-brief', *flags],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=kit.LONG_S)
    assert done.returncode != 0, done


def test_tls_without_the_key_and_older_tls_are_refused():
    psk = secrets.token_hex(32)
    ways = (('-tls1_3',), ('-tls1_2',), ('-tls1_2', '-psk', psk, '-psk_identity', 'muster-1'),
            ('-tls1_3', '-psk', psk, '-psk_identity', 'muster-1'),
            ('-tls1_3', '-psk', psk, '-psk_identity', 'admin'),
            ('-tls1_3', '-psk', psk, '-psk_identity', 'muster-1', '-allow_no_dhe_kex'))
    with running_job() as orchestrator:
        for n, flags in enumerate(ways, 1):
            s_client(orchestrator, *flags)
            counted(orchestrator, refused=n)
        orchestrator.wait_log('net: refused 127.0.0.1')


# ---- those who know the token, and talk nonsense ----

def stranger(orchestrator, what):
    return subprocess.Popen([STRANGER, orchestrator.where, orchestrator.token_file, what],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            env=orchestrator.world.env())


def says(orchestrator, what):
    with stranger(orchestrator, what) as one:
        assert one.wait(kit.LONG_S) == 0, what


def test_another_version_of_the_protocol_is_refused_and_both_are_named():
    with running_job() as orchestrator:
        says(orchestrator, 'version')
        orchestrator.wait_log('install the same major version of muster on both')
        says(orchestrator, 'old')
        counted(orchestrator, broken=2)
        for text in ('wire version 1.', 'the other 2.'):
            assert text in orchestrator.log(), orchestrator.log()


def test_nonsense_after_the_handshake_closes_that_connection_alone():
    kinds = ('garbage', 'damaged', 'long', 'unknown')
    with running_job() as orchestrator:
        began = time.monotonic()
        for n in range(1, 9):
            says(orchestrator, kinds[n % len(kinds)])
        counted(orchestrator, broken=8)
        lines = [line for line in orchestrator.log().splitlines() if ' warn ' in line]
        assert 0 < len(lines) < time.monotonic() - began + 2, lines  # One a second at most.


def test_what_is_nothing_to_say_to_an_orchestrator_closes_the_connection():
    with running_job() as orchestrator:
        says(orchestrator, 'senseless')
        orchestrator.wait_log('nothing that one says here')


def is_deaf(what, told):
    with running_job() as orchestrator:
        with stranger(orchestrator, what) as deaf:
            try:
                counted(orchestrator, unread=1)
                orchestrator.wait_log(told)
            finally:
                deaf.kill()


def test_whoever_asks_much_and_never_reads_is_closed():
    is_deaf('deaf', 'it does not read')


def test_whoever_asks_and_never_reads_is_closed_in_the_end():
    if not kit.FULL:
        tap.skip('half a minute; only with MUSTER_TEST_FULL')
    is_deaf('dull', 'it takes nothing any more')


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
