#!/usr/bin/env python3
"""What no browser would ever send to the HTTP port: paths that climb, bodies without end, half
requests, nonsense, and whatever comes at random. It is answered or closed, nothing changes, and the
job trains on.

usage: http_abuse_test.py MUSTER [CASE…]
"""
import os
import random
import select

import kit
import web

RENEWING = ('--lease', '3', '--join-window', '0.2')  # for a case that waits for renewals
BODY_MAX = 128 << 10
VALUE_MAX = 64 << 10
CONNS_MAX = 512


# ---- paths ----

TRAVERSALS = ('/../etc/passwd', '/v1/../../etc/passwd', '/%2e%2e/%2e%2e/etc/passwd',
              '/v1/jobs/../../x', '/v1/jobs/..', '/v1/jobs/.', '/v1/jobs/%2e%2e',
              '/v1/jobs/%2E%2E/config', '/v1/jobs/..%2f..%2fetc', '/v1/jobs/%252e%252e/config',
              '/v1/jobs/default/config/..', '/v1/jobs/default/config/../../../x',
              '/v1/jobs/default/config/a/%2e%2e/b', '/v1/jobs/default/config/a%2f..%2fb',
              '/v1/jobs/default/config/%2fetc%2fpasswd', '/v1/jobs/default/config/a//b',
              '/v1/jobs/default/config/%00', '/v1/jobs/default/config/lr%00', '/v1/jobs/def%00ault',
              '/v1/jobs/default/config/lr%00.x', '/v1/jobs/%c0%ae%c0%ae', '/v1/jobs/%ff%fe',
              '/v1/jobs/default/config/%c0%af', '/v1/jobs/default/config/%e0%80%af',
              '/v1/jobs/default/config/%zz', '/v1/jobs/default/config/%', '/v1/jobs/%4',
              '/v1/jobs/default/config/..%5c..%5cx', '/v1/jobs/default/config/a;b',
              '/v1/jobs/default/config/' + 'k' * 128, '/v1/jobs/default/config/' + 'a/' * 64 + 'a',
              '/v1/jobs/' + 'j' * 64, '/v1/jobs/' + 'j' * 4000, '/v1/jobs/default/config/a%20b',
              '/v1/jobs/default/config/%0d%0aX:%20y', 'http://evil.example/v1/jobs', '*', '/v1/jobs?%00',
              'v1/jobs', '/v1/jobs/default%2fconfig', '/' + 'a' * 20000)


def test_paths_that_climb_hide_or_never_end_reach_nothing():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for path in TRAVERSALS:
            for method in ('GET', 'PUT', 'DELETE'):
                body = b'x' if method == 'PUT' else b''
                head = f'{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}'
                status = w.raw_status(head, body)
                assert status in (0, 400, 404, 405, 414, 431), (method, path, status)
        for path in ('/v1/jobs/a b', '/v1/jobs\x01', '/v1/jobs\x7f', '/v1/jobs\xff'):
            status = w.raw_status(f'GET {path} HTTP/1.1')
            assert status in (0, 400, 404, 505), (path, status)


# ---- bodies ----

def changing(w):
    return [route for route in web.routes(w) if route.changes]


def test_bodies_that_are_too_large_are_refused_wherever_they_go():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in changing(w):
            for role in ('operator', 'viewer', None):
                for n in (BODY_MAX + 1, 1 << 20, 1 << 40):
                    target = route.filled(key='big')
                    head = web.request(w, route.method, target, f'Content-Length: {n}', role=role)
                    status = web.status_of(w.raw(head + b'x' * min(n, 2 << 20), begin=True))
                    want = {'operator': (0, 413), 'viewer': (0, 403, 413), None: (0, 401, 413)}[role]
                    assert status in want, (route, role, n, status)
        for n in (VALUE_MAX + 1, BODY_MAX):
            answer = w.try_put('default', 'big', b'x' * n)
            web.check_error(answer, 413, n)
        chunks = b''.join(b'10000\r\n' + b'x' * 65536 + b'\r\n' for _ in range(4)) + b'0\r\n\r\n'
        head = web.request(w, 'PUT', '/v1/jobs/default/config/big', 'Transfer-Encoding: chunked')
        assert web.status_of(w.raw(head + chunks, begin=True)) in (0, 413)


def test_a_value_may_be_as_large_as_is_said_and_all_of_them_together_too():
    with web.undisturbed(*kit.SERVE, changes=True) as (w, job):
        version = w.put(job.name, 'big', b'x' * VALUE_MAX)
        assert w.value(job.name, 'big') == ('x' * VALUE_MAX, version)
        kept = 1
        while w.try_put(job.name, f'more/{kept}', b'y' * VALUE_MAX).status in (200, 201, 204):
            kept += 1
            assert kept < 100
        answer = w.try_put(job.name, 'one/more', b'y' * VALUE_MAX)
        web.check_error(answer, answer.status, 'no room')
        assert answer.status in (413, 507), answer
        assert w.value(job.name, 'one/more') is None
        w.remove(job.name, 'big')
        w.put(job.name, 'one/more', b'y' * VALUE_MAX)


def test_bodies_that_are_cut_change_nothing():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in changing(w):
            target = route.filled()
            for length, sent in ((100, 0), (100, 10), (100, 99), (5, 4)):
                head = web.request(w, route.method, target, f'Content-Length: {length}')
                status = w.cut_off(head + b'9' * sent)
                assert status in (0, 400, 408), (route, length, sent, status)
            for chunks in (b'5\r\n12', b'5\r\n12345', b'5\r\n12345\r\n', b'5', b'', b'5\r\n12345\r\n0'):
                head = web.request(w, route.method, target, 'Transfer-Encoding: chunked')
                status = w.cut_off(head + chunks)
                assert status in (0, 400, 408), (route, chunks, status)


LENGTHS = (('Content-Length: -1',), ('Content-Length: x',), ('Content-Length: 1', 'Content-Length: 2'),
           ('Content-Length: 99999999999999999999999999',), ('Content-Length: 0x1',),
           ('Content-Length: 1', 'Transfer-Encoding: chunked'), ('Transfer-Encoding: gzip',),
           ('Transfer-Encoding: chunked, chunked',), ('Content-Length: 1, 1',))


def test_lengths_that_make_no_sense_change_nothing():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for headers in LENGTHS:
            head = web.request(w, 'PUT', '/v1/jobs/default/config/lr', 'If-Match: "999"', *headers)
            status = w.cut_off(head + b'9')
            assert status in (0, 400, 411, 412, 413, 501), (headers, status)
        head = web.request(w, 'PUT', '/v1/jobs/default/config/lr', 'Transfer-Encoding: chunked')
        for chunk in (b'x\r\n', b'-1\r\n', b'ffffffffffffffffffff\r\n'):
            status = w.cut_off(head + chunk)
            assert status in (0, 400, 413), (chunk, status)
        status = w.cut_off(head + b'1;' + b'e' * 40000)  # libmicrohttpd has no other word for it.
        assert status in (0, 400, 413, 431, 500), status


# ---- what is no request ----

NONSENSE = (b'\0' * 4096, b'\r\n' * 100, b'GET\r\n\r\n', b'GET /\r\n\r\n', b'GET / HTTP/9.9\r\n\r\n',
            b'GET / HTTP/1.1\r\n' + b'a: b\r\n' * 5000 + b'\r\n', b'GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n',
            b'GET / HTTP/1.1\r\nHost : x\r\n\r\n', b'GET / HTTP/1.1\r\n Host: x\r\n\r\n', b'x' * 100000,
            b'GET / HTTP/1.1\r\nX: ' + b'y' * 100000 + b'\r\n\r\n', b'SSH-2.0-OpenSSH_9.2p1\r\n',
            b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(500), b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', b'MSTR\x01\x01\x01\0' + bytes(40))


def test_nonsense_is_closed_or_answered_and_nothing_else():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for data in NONSENSE:
            status = w.cut_off(data)
            assert status in (0, 400, 401, 404, 413, 414, 421, 431, 501, 505), (data[:60], status)
            assert web.healthy(w), data[:60]


def test_half_requests_and_idle_connections_cost_nobody_anything():
    with web.undisturbed(*kit.SERVE) as (w, _):
        whole = web.request(w, 'PUT', '/v1/jobs/default/config/lr', 'Content-Length: 2') + b'99'
        before_kib = web.resident_kib(w.orchestrator.pid)
        idle = [w.connect() for _ in range(100)]
        for n, sock in enumerate(idle):
            sock.sendall(whole[:n * (len(whole) - 1) // len(idle)])
        idle += [w.connect() for _ in range(300)]
        for _ in range(20):
            assert w.ask('GET', '/v1/jobs').status == 200
        assert web.resident_kib(w.orchestrator.pid) - before_kib < 32 << 10
        for sock in idle:
            sock.close()


def test_more_connections_than_are_held_disturb_no_agent():
    with web.undisturbed(*RENEWING) as (w, _):
        idle = [w.connect() for _ in range(CONNS_MAX + 200)]
        # Some places are kept for who comes; those go that have asked for nothing for longest.
        kit.wait_until(lambda: CONNS_MAX - 40 <= w.metrics()['muster_http_connections'] <= CONNS_MAX,
                       'as many as there is room for were held')
        before = w.metrics()['muster_renewals_total']
        kit.wait_until(lambda: w.metrics()['muster_renewals_total'] >= before + 4, 'both agents renewed twice')
        assert w.orchestrator.own_status()['journal']['writable']
        for sock in idle:
            sock.close()


def test_requests_one_behind_the_other_are_answered_in_their_order():
    with web.undisturbed(*kit.SERVE) as (w, _):
        targets = ['/healthz', '/nothing', '/v1/jobs', '/v1/jobs/nobody', '/metrics'] * 4
        data = b''.join(web.request(w, 'GET', target) for target in targets)
        data += web.request(w, 'GET', '/healthz', 'Connection: close')
        answer = w.raw(data)
        found = [int(part[:3]) for part in answer.split(b'HTTP/1.1 ')[1:]]
        assert found == [200, 404, 200, 404, 200] * 4 + [200], found


# ---- at random ----

WORDS = (b'GET', b'PUT', b'DELETE', b'HEAD', b'POST', b'/v1/jobs', b'/default', b'/config', b'/events',
         b'/metrics', b'/generations', b'/members', b'/fuzz/x', b'?wait=1', b'?since=2', b'%2e%2e', b'%00',
         b' HTTP/1.1', b' HTTP/1.0', b'\r\n', b'\n', b'\r', b'\0', b': ', b'Host: localhost\r\n',
         b'If-Match: "1"\r\n', b'If-None-Match: *\r\n', b'Content-Length: 3\r\n', b'Content-Length: -3\r\n',
         b'Transfer-Encoding: chunked\r\n', b'Expect: 100-continue\r\n', b'Connection: upgrade\r\n',
         b'Accept: text/event-stream\r\n', b'Last-Event-ID: x-1\r\n', b'3\r\nabc\r\n0\r\n\r\n', b'\xff\xfe')


def fuzzed(w, prng):
    """A request that was right once, with some of it moved, doubled, cut or replaced."""
    role = prng.choice((None, 'wrong', 'viewer', 'operator'))
    path = prng.choice(('/v1/jobs', '/v1/jobs/default', '/v1/jobs/default/config', '/healthz',
                        '/metrics', '/v1/jobs/default/config/fuzz/a', '/v1/jobs/default/events',
                        '/v1/jobs/default/generations?since=0', '/v1/events'))
    method = prng.choice(('GET', 'GET', 'HEAD', 'PUT', 'DELETE'))
    if role == 'operator' and '/config/fuzz/' not in path:
        method = 'GET'
    body = bytes(prng.randrange(256) for _ in range(prng.randrange(40)))
    data = bytearray(web.request(w, method, path, f'Content-Length: {len(body)}', role=role) + body)
    for _ in range(prng.choice((0, 0, 1, 2, 5))):
        at, what = prng.randrange(len(data) + 1), prng.randrange(5)
        if what == 0 and at < len(data):
            data[at] = prng.randrange(256)
        elif what == 1:
            data[at:at] = prng.choice(WORDS)
        elif what == 2:
            del data[at:at + prng.randrange(1, 30)]
        elif what == 3:
            data[at:at] = data[at:at + prng.randrange(1, 60)]
        elif what == 4 and len(data) > 1:
            del data[prng.randrange(1, len(data)):]
    return bytes(data) or b'?'


def sane(w):
    """Requests with nothing wrong in them but what they ask for."""
    return [web.request(w, 'GET', '/v1/jobs'), web.request(w, 'GET', '/v1/jobs?%zz'),
            web.request(w, 'GET', '/v1/jobs', role='wrong'), web.request(w, 'GET', '/nothing'),
            web.request(w, 'DELETE', '/v1/jobs/default/config/fuzz/a', role='viewer')]


def knock(w, requests, prng):
    """Says all of them, and some sane ones, at the same time, in pieces. The statuses of the sane ones, and of what
    is answered before they are."""
    awaited = [w.connect() for _ in sane(w)]
    socks = [w.connect() for _ in requests] + awaited
    left = dict(zip(socks, requests + sane(w)))
    while left:
        for sock, data in list(left.items()):
            n = prng.choice((1, 7, 50, len(data), len(data)))
            left[sock] = data[n:]
            try:
                sock.sendall(data[:n])
            except OSError:
                left[sock] = b''
            if not left[sock]:
                del left[sock]
    statuses = [web.status_of(sock.recv(65536)) for sock in awaited]
    assert statuses == [200, 400, 401, 404, 403], statuses
    reads = [sock for sock in socks if prng.random() < 0.8 and sock not in awaited]  # The rest never look.
    while ready := select.select(reads, [], [], 0)[0]:
        for sock in ready:
            reads.remove(sock)
            try:
                statuses.append(web.status_of(sock.recv(65536)))
            except OSError:
                statuses.append(0)
    for sock in socks:
        sock.close()
    return statuses


def test_whatever_is_sent_at_random_is_answered_or_closed():
    seed = int(os.environ.get('E2E_SEED', random.SystemRandom().randrange(1 << 32)))
    prng = random.Random(seed)
    seen = {}
    with web.undisturbed(*kit.SERVE, changes=True) as (w, job):
        for turn in range(600 if kit.FULL else 30):
            requests = [fuzzed(w, prng) for _ in range(50)]
            for status in knock(w, requests, prng):
                assert status < 500 or status in (501, 505), f'E2E_SEED={seed}, {turn}: {status}'
                seen[status] = seen.get(status, 0) + 1
            assert web.healthy(w) and not w.orchestrator.ended(), f'E2E_SEED={seed}, {turn}: {requests}'
        assert sum(seen.values()) > len(sane(w)) * (turn + 1), seen  # Some of the others, too.
        assert w.value(job.name, 'lr')[0] == '0.1'
        kit.wait_until(lambda: w.metrics()['muster_http_streams'] == 0, 'no stream was left')


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
