#!/usr/bin/env python3
"""Commands against a real orchestrator on this machine: what they print and exit with.

usage: serve_test.py MUSTER
"""
import datetime
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request

from kit import (DENIED, LONG, MUSTER, NOT_FOUND, UNREACHABLE, USAGE, clean_env, folder, muster, node, nodes_of,
                 serving, wait_status)
import tap


def test_commands_of_the_same_user_need_no_token_step():
    with serving() as serve:
        status, out, err = serve.ask('status')
        assert (status, err) == (0, '') and 'no jobs yet' in out, (status, out, err)
        assert serve.ask('status', '--json') == (0, '', '')
        token = os.path.join(serve.home, '.local/state/muster/token')
        assert stat.S_IMODE(os.stat(token).st_mode) == 0o600


def test_the_orchestrator_tells_of_itself():
    with serving() as serve:
        status, out, _ = serve.ask('status', '--orchestrator', '--json')
        self = json.loads(out)
        assert status == 0 and self['port'] == serve.port, out
        assert self['connections']['opened'] >= 1, out
        status, out, _ = serve.ask('status', '--orchestrator')
        assert status == 0 and f'port: {serve.port}\n' in out, out
        status, _, err = serve.ask('status', '--orchestrator', 'default')
        assert status == USAGE and 'exclude each other' in err, err


def test_it_ends_in_order_on_sigterm_and_sigint_and_starts_again_where_it_was():
    with folder() as home:
        stores = set()
        for number in (signal.SIGTERM, signal.SIGINT):
            with serving(home=home) as serve:
                _, out, _ = serve.ask('status', '--orchestrator', '--json')
                stores.add(json.loads(out)['store'])
                assert serve.end(number) == 0, serve.text()
        assert len(stores) == 1, stores


def test_a_port_or_a_folder_in_use_is_refused_with_a_hint():
    with serving() as serve, folder() as other:
        status, _, err = muster('serve', '--listen', '127.0.0.1:0', home=serve.home)
        assert status == 1 and '.local/state/muster' in err and 'use' in err, err
        status, _, err = muster('serve', '--listen', f'127.0.0.1:{serve.port}', home=other)
        assert status == 1 and str(serve.port) in err and 'use' in err, err
        assert serve.ask('status')[0] == 0


def test_it_outlives_whoever_reads_its_log():
    with folder() as home:
        process = subprocess.Popen([MUSTER, 'serve', '--listen', '127.0.0.1:0'], text=True,
                                   stderr=subprocess.PIPE, env=clean_env(home))
        try:
            where = '127.0.0.1:' + re.search(r':(\d+)', process.stderr.readline()[30:]).group(1)
            process.stderr.close()
            for _ in range(2):  # Each is a line in the log.
                assert muster('status', '--endpoint', where, home=home,
                              MUSTER_TOKEN='mu1-' + '0' * 64)[0] == DENIED
            assert muster('status', '--endpoint', where, home=home)[0] == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(LONG) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def test_what_is_not_there_is_status_5():
    with serving() as serve:
        for words in (('status', 'nope'), ('drain', 'nope'), ('drain', '--job', 'nope', 'n'),
                      ('takeover', 'nope'), ('shutdown', 'nope')):
            status, out, err = serve.ask(*words)
            assert (status, out) == (NOT_FOUND, '') and f'muster {words[0]}: ' in err, (words, err)
            assert "'nope'" in err, err


def test_events_are_lines_for_people_and_objects_for_programs():
    with serving() as serve:
        status, out, err = serve.ask('events')
        assert (status, err) == (0, ''), err
        assert re.match(r'\d\d:\d\d:\d\d  -           the orchestrator started', out), out
        status, out, _ = serve.ask('events', '--json')
        events = [json.loads(line) for line in out.splitlines()]
        assert status == 0 and events[0]['number'] == 1 and events[0]['event'] == 'restarted', out
        at = datetime.datetime.fromisoformat(events[0]['time'].replace('Z', '+00:00'))
        assert events[0]['job'] is None and abs(at.timestamp() - time.time()) < 3600, out
        assert serve.ask('events', '--since', str(events[-1]['number'])) == (0, '', '')
        assert serve.ask('events', '--since', 'now')[0] == USAGE


def test_followed_events_come_at_once_and_end_with_the_orchestrator():
    with serving() as serve:
        env = clean_env(serve.home, MUSTER_ENDPOINT=f'127.0.0.1:{serve.port}')
        with subprocess.Popen([MUSTER, 'events', '-f', '--json'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env) as follower:
            assert json.loads(follower.stdout.readline())['event'] == 'restarted'
            assert follower.poll() is None
            serve.end()
            _, err = follower.communicate(timeout=LONG)
        assert follower.returncode == UNREACHABLE and 'muster events: ' in err, err


def test_a_wrong_token_is_status_4_and_counted():
    with serving() as serve:
        status, out, err = serve.ask('status', MUSTER_TOKEN='mu1-' + '0' * 64)
        assert (status, out) == (DENIED, '') and 'token' in err, err
        _, out, _ = serve.ask('status', '--orchestrator', '--json')
        assert json.loads(out)['connections']['refused'] == 1, out
        status, _, err = serve.ask('status', MUSTER_TOKEN='not one')
        assert status == DENIED and 'MUSTER_TOKEN' in err, err


def test_no_token_is_status_4_and_says_where_it_was_looked_for():
    with serving() as serve, folder() as other:
        status, _, err = muster('status', '--endpoint', f'127.0.0.1:{serve.port}', home=other)
        assert status == DENIED and 'MUSTER_TOKEN' in err and other in err, err
        token = serve.ask('token')[1].strip()
        for words, env in ((('status',), {'MUSTER_TOKEN': token}),):
            status, _, err = muster(*words, '--endpoint', f'127.0.0.1:{serve.port}', home=other,
                                    **env)
            assert (status, err) == (0, ''), err


def bad_token_files(where):
    """Paths of token files that can't be used, each for its own reason."""
    yield os.path.join(where, 'missing')
    yield where
    for name, text, mode in (('garbage', 'x\n', 0o600), ('empty', '', 0o600),
                             ('public', 'mu1-' + '0' * 64 + '\n', 0o644)):
        path = os.path.join(where, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(path, mode)
        yield path


def test_a_token_file_that_cannot_be_used_is_fatal_for_everybody():
    with serving() as serve, folder() as where:
        token = serve.ask('token')[1].strip()
        for path in bad_token_files(where):
            # Another token that would do is no reason to go on.
            status, _, err = serve.ask('status', '--token-file', path, MUSTER_TOKEN=token)
            assert status == DENIED and path in err, err
            status, _, err = muster('serve', '--listen', '127.0.0.1:0', '--token-file', path,
                                    home=where)
            assert status == 1 and path in err, err


def test_the_token_is_printed_and_made_once():
    with folder() as home:
        status, out, err = muster('token', home=home)
        assert status == 0 and out.startswith('mu1-') and 'made one' in err, (out, err)
        assert muster('token', home=home) == (0, out, '')
        data = os.path.join(home, 'data')
        status, other, err = muster('token', '--data', data, home=home)
        assert status == 0 and other != out and data in err, (other, err)
        with serving('--data', data, home=home) as serve:
            status, _, err = serve.ask('status')
            assert status == DENIED, err
            status, _, err = serve.ask('status', '--token-file', os.path.join(data, 'token'))
            assert (status, err) == (0, ''), err


def test_no_orchestrator_is_status_3_with_a_hint():
    with socket.socket() as unused, folder() as home:
        unused.bind(('127.0.0.1', 0))
        where = '127.0.0.1:%d' % unused.getsockname()[1]
        token = muster('token', home=home)[1].strip()
        for words in (('status',), ('events',), ('events', '--follow'), ('drain', 'n'),
                      ('takeover', 'j'), ('shutdown', 'j')):
            status, out, err = muster(*words, '--endpoint', where, home=home, MUSTER_TOKEN=token)
            assert (status, out) == (UNREACHABLE, ''), (words, status, err)
            assert where in err and 'muster serve' in err, err


def test_one_of_several_endpoints_is_enough():
    with serving() as serve, socket.socket() as unused:
        unused.bind(('127.0.0.1', 0))
        where = '127.0.0.1:%d,127.0.0.1:%d' % (unused.getsockname()[1], serve.port)
        assert serve.ask('status', '--rdzv_endpoint', where)[0] == 0


def test_a_port_that_says_nothing_is_given_up_after_the_timeout():
    with socket.socket() as silent, folder() as home:
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        muster('token', home=home)
        status, _, err = muster('status', '--timeout', '0.2', '--endpoint',
                                '127.0.0.1:%d' % silent.getsockname()[1], home=home)
        assert status == UNREACHABLE, (status, err)


def test_a_port_of_something_else_is_told_apart():
    with socket.socket() as other, folder() as home:
        other.bind(('127.0.0.1', 0))
        other.listen()
        muster('token', home=home)
        where = '127.0.0.1:%d' % other.getsockname()[1]
        with subprocess.Popen([MUSTER, 'status', '--endpoint', where], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=clean_env(home)) as asking:
            peer, _ = other.accept()
            peer.recv(1)
            peer.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n' * 10)
            out, err = asking.communicate(timeout=LONG)
            peer.close()
        assert (asking.returncode, out) == (1, '') and where in err, (asking.returncode, err)
        assert 'muster serve' not in err and 'protocol' in err, err


def test_a_job_is_seen_drained_and_shut_down():
    with serving('--join-window', '0.1') as serve, node(serve, 'a') as a, node(serve, 'b') as b:
        job = wait_status(serve, lambda job: sorted(nodes_of(job)) == ['a', 'b'] and job['state'] == 'running')
        assert (job['job'], job['run'], job['waiting']) == ('default', 1, []), job
        assert [member['rank'] for member in job['members']] == [0, 1], job
        _, out, _ = serve.ask('status', 'default')
        assert out.startswith('job default  run 1  running  generation'), out
        assert '\033' not in out and re.search(r'\n +[01] +n\d+\.0#\d+ +a ', out), out

        assert serve.ask('takeover', 'default')[0] == 1
        status, out, err = serve.ask('drain', 'b')
        assert status == 0 and 'node b leaves' in out, err
        assert b.wait(LONG) == 0
        assert nodes_of(wait_status(serve, lambda job: len(job['members']) == 1)) == ['a']
        status, out, _ = serve.ask('events', '--job', 'default')
        assert status == 0 and re.search(r"default +node 'b' has left", out), out

        status, out, err = serve.ask('shutdown', 'default')
        assert (status, out) == (0, 'job default ends\n'), err
        assert a.wait(LONG) == 0
        assert wait_status(serve, lambda job: job['state'] == 'done')
        status, _, err = serve.ask('shutdown', 'default')
        assert status == 1 and 'ended already' in err, err


def test_a_node_that_two_jobs_have_needs_its_job_named():
    with serving('--join-window', '0.1') as serve, \
            node(serve, 'n', '--job', 'one') as one, node(serve, 'n', '--job', 'two'):
        for job in ('one', 'two'):
            wait_status(serve, lambda job: nodes_of(job) == ['n'], job)
        status, out, _ = serve.ask('status', '--json')
        assert [json.loads(line)['job'] for line in sorted(out.splitlines())] == ['one', 'two'], out
        status, out, err = serve.ask('drain', 'n')
        assert (status, out) == (1, '') and '--job' in err, err
        assert serve.ask('drain', 'n', '--job', 'one')[0] == 0
        assert one.wait(LONG) == 0


def test_off_loopback_the_log_says_how_others_get_the_token():
    with serving(listen='0.0.0.0:0') as serve:
        serve.wait_for(r'other machines need the token in \S+/token.*`muster token` prints it')
    with serving() as serve:
        assert 'other machines' not in serve.text()


def test_http_is_served_with_tokens_of_two_roles():
    with serving('--http', '127.0.0.1:0') as serve:
        url = serve.wait_for(r'serves (http://127\.0\.0\.1:\d+);').group(1)
        tokens = [serve.ask('token', '--role', role)[1].strip() for role in ('viewer', 'operator')]
        assert all(re.fullmatch('[0-9a-f]{64}', token) for token in tokens), tokens
        assert tokens[0] != tokens[1] and tokens[0] not in serve.ask('token')[1], tokens
        for token in tokens:
            asked = urllib.request.Request(url + '/v1/jobs',
                                           headers={'Authorization': f'Bearer {token}'})
            with urllib.request.urlopen(asked, timeout=LONG) as answer:
                assert json.load(answer)['jobs'] == []
        with urllib.request.urlopen(url + '/healthz', timeout=LONG) as answer:
            assert answer.read() == b'ok\n'
    with serving() as serve:
        assert 'http' not in serve.text()


def http_status(url, host=None, context=None):
    asked = urllib.request.Request(url + '/healthz', headers={'Host': host} if host else {})
    try:
        with urllib.request.urlopen(asked, timeout=LONG, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_http_knows_its_own_names_only():
    with serving('--http', '127.0.0.1:0', '--http-host', 'a.example,b.example',
                 '--http-host=c.example') as serve:
        url = serve.wait_for(r'serves (http://127\.0\.0\.1:\d+);').group(1)
        for host in ('localhost', '127.0.0.1', 'a.example', 'b.example:80', 'C.example'):
            assert http_status(url, host) == 200, host
        for host in ('example', 'd.example', 'a.example.com'):
            assert 400 <= http_status(url, host) < 500, host


def test_http_off_loopback_needs_a_certificate():
    with folder() as home:
        status, _, err = muster('serve', '--listen', '127.0.0.1:0', '--http', '0.0.0.0:0',
                                home=home)
        assert status == 1 and '--http-cert' in err and '127.0.0.1' in err, err
        cert, key = os.path.join(home, 'cert.pem'), os.path.join(home, 'key.pem')
        status, _, err = muster('serve', '--listen', '127.0.0.1:0', '--http', '0.0.0.0:0',
                                '--http-cert', cert, '--http-key', key, home=home)
        assert status == 1 and cert in err, err
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                        'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=muster',
                        '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert],
                       check=True, stderr=subprocess.DEVNULL)
        os.chmod(key, 0o600)
        with serving('--http', '0.0.0.0:0', '--http-cert', cert, '--http-key', key) as serve:
            port = serve.wait_for(r'serves https://0\.0\.0\.0:(\d+);').group(1)
            trust = ssl.create_default_context(cafile=cert)
            assert http_status(f'https://127.0.0.1:{port}', context=trust) == 200


def test_a_port_for_http_that_is_taken_is_fatal_and_named():
    with socket.socket() as taken, folder() as home:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        where = '127.0.0.1:%d' % taken.getsockname()[1]
        status, _, err = muster('serve', '--listen', '127.0.0.1:0', '--http', where, home=home)
        assert status == 1 and where in err, err


def test_a_quota_is_a_size():
    for size in ('500M', '50G', '4096'):
        with serving('--ckpt-quota', size) as serve:
            assert serve.end() == 0, serve.text()
    for size in ('0', 'G', '1.5G', '5X', '50GB', '-1', '', '99999999999999999999', '9999999999P'):
        status, out, err = muster('serve', '--ckpt-quota', size)
        assert (status, out) == (USAGE, '') and 'a size like 500M or 50G' in err, (size, err)


def test_serve_refuses_times_that_make_no_sense():
    with folder() as home:
        for words, why in ((('--takeover', '600'), '--takeover must be more than'),
                           (('--orphan', '1', '--lease', '2', '--takeover', '3'), 'than 3 seconds'),
                           (('--lease', '0'), '--lease wants seconds'),
                           (('--listen', 'a:b'), '--listen: '),
                           (('--nodes-max', '0'), '--nodes-max wants'),
                           (('--leese', '3'), 'Did you mean --lease?'),
                           (('--http-cert', 'c', '--http-key', 'k'), 'need --http'),
                           (('--http', ':0', '--http-cert', 'c'), 'go together'),
                           (('--http', ':0', '--http-host', 'a,,b'), '--http-host wants names'),
                           (('extra',), "'extra' is one word too many")):
            status, out, err = muster('serve', *words, home=home)
            assert (status, out) == (USAGE, '') and why in err, (words, err)
        assert os.listdir(home) == []


if __name__ == '__main__':
    tap.run(__name__, 4, sys.argv[2:])
