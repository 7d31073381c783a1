#!/usr/bin/env python3
"""Everybody who may knock at the HTTP port: each route with each token, wrong methods, conditions,
hosts and questions. The answer is right, nothing changes, and the job trains on.

usage: http_test.py MUSTER [CASE…]
"""
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import kit
import tap
import web

ROLES = {'none': 0, 'viewer': 1, 'operator': 2}
METHODS = ('GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'FOO', 'get')


# ---- who may what ----

def test_the_routes_are_those_that_the_help_and_the_docs_list():
    with web.undisturbed(*kit.SERVE) as (w, _):
        found = web.routes(w)
        assert len(found) >= 14 and {route.role for route in found} == set(ROLES), found
        text = subprocess.run([kit.MUSTER, 'help', 'http'], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        for route in found:
            assert f'  {route.method} {route.path} ({route.role})\n' in text, route
        listed = sum(text.count(f'  {method} /') for method in METHODS)
        assert listed == len(found), text


def test_every_route_wants_the_token_that_its_table_says():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in web.routes(w):
            for role in (None, 'wrong', 'viewer'):
                answer = w.ask(route.method, route.filled(), b'x' if route.changes else None, role,
                               If_Match='"12345"', Accept='application/json')
                has = {None: 0, 'wrong': 0, 'viewer': 1}[role]
                if has >= ROLES[route.role]:
                    assert answer.status not in (401, 403), (route, role, answer)
                elif has == 0:
                    web.check_error(answer, 401, (route, role))
                    assert answer.headers['www-authenticate'] == 'Bearer' and answer.json()['hint']
                else:
                    web.check_error(answer, 403, (route, role))


def test_an_operator_may_do_what_a_viewer_may():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in web.routes(w):
            if not route.changes:
                answer = w.ask(route.method, route.filled(), Accept='application/json')
                assert answer.status == 200, (route, answer)
                assert 'no-store' in answer.headers['cache-control'], (route, answer)
                head = w.ask('HEAD', route.filled(), Accept='application/json')
                assert head.status == 200 and head.body == b'', (route, head)


def test_changes_want_an_operator_and_what_they_name_to_be_there():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in web.routes(w):
            if route.changes and '{' in route.path:
                answer = w.ask(route.method, route.filled(job='nobody'), b'x')
                web.check_error(answer, 404, route)
                answer = w.ask(route.method, route.filled(job='%2e'), b'x')
                web.check_error(answer, 404, route)


WRONG_TOKENS = ('', 'Bearer', 'Bearer ', 'Bearer x', 'Bearer ' + '0' * 63, 'Bearer ' + '0' * 65,
                'Basic dXNlcjpwYXNz', 'Bearer ' + 'g' * 64, 'Bearer ' + '0' * 64 + ', x',
                'Bearer ' + '0' * 4000)


def test_a_token_that_is_cut_stretched_or_of_another_kind_opens_nothing():
    with web.undisturbed(*kit.SERVE) as (w, _):
        good = w.tokens['operator']
        secret = subprocess.run([kit.MUSTER, 'token', '--data', w.orchestrator.data], check=True,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        assert len({good, w.tokens['viewer'], secret}) == 3
        more = (f'Bearer {good[:-1]}', f'Bearer {good}0', f'Bearer {secret}', f'Basic {good}',
                f'Bearer {good[:-1]}{"0" if good[-1] != "0" else "1"}', good, f'Bearer x{good}')
        for text in WRONG_TOKENS + more:
            answer = w.ask('GET', '/v1/jobs', role=None, Authorization=text)
            web.check_error(answer, 401, text)


def test_refusals_that_go_on_do_not_flood_the_log():
    with web.undisturbed(*kit.SERVE) as (w, _):
        began = time.monotonic()
        for n in range(300):
            web.check_error(w.ask('GET', '/v1/jobs', role=('wrong', None)[n % 2]), 401, n)
        lines = [line for line in w.orchestrator.log().splitlines() if ' http: ' in line and
                 'refused' in line]
        assert 0 < len(lines) < time.monotonic() - began + 12, lines


# ---- methods ----

def test_a_method_that_a_path_has_not_is_refused_with_those_that_it_has():
    with web.undisturbed(*kit.SERVE) as (w, _):
        found = web.routes(w)
        for path in {route.path for route in found}:
            has = {route.method for route in found if route.path == path}
            has |= {'HEAD'} if 'GET' in has else set()
            target = next(route for route in found if route.path == path).filled()
            for method in METHODS:
                if method in has:
                    continue
                answer = w.ask(method, target)
                assert answer.status == 405, (method, path, answer)
                if method != 'HEAD':  # which has no body
                    web.check_error(answer, 405, (method, path))
                assert set(answer.headers['allow'].replace(' ', '').split(',')) == has, answer


def test_there_is_nothing_where_no_route_is():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for path in ('/nothing', '/v1', '/v1/', '/v2/jobs', '/v1/jobs/', '/v1/jobs//config',
                     '/v1/jobs/default/', '/v1/jobs/default/nothing', '//v1/jobs', '/V1/JOBS',
                     '/metrics/', '/healthz/x', '/v1/jobs/default/config/', '/favicon.ico',
                     '/v1/jobs/nobody', '/v1/jobs/nobody/config', '/v1/jobs/nobody/events'):
            web.check_error(w.ask('GET', path), 404, path)


# ---- versions that are none ----

def test_conditions_that_make_no_sense_are_refused_never_ignored():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for name in ('If-Match', 'If-None-Match'):
            for value in ('x', '"', '"1', '1"', '"1" "2"', '*, "1"', ',', 'W/', '""x'):
                for method in ('PUT', 'DELETE'):
                    answer = w.ask(method, '/v1/jobs/default/config/lr', b'9',
                                   **{name.replace('-', '_'): value})
                    assert answer.status in (400, 412), (name, value, method, answer)
        version = w.value('default', 'lr')[1]
        for value in (f'W/"{version}"', f'"{version + 1}"', f'"0{version}"', f'" {version}"', '""'):
            answer = w.try_put('default', 'lr', '9', If_Match=value)
            assert answer.status == 412, (value, answer)
        answer = w.try_put('default', 'none', '9', If_Match='*')
        assert answer.status == 412, answer


# ---- hosts and pages ----

def test_a_name_that_is_not_its_own_is_refused_so_that_no_page_can_rebind_one():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for host in ('evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'a@localhost',
                     'localhost:x', '', '[::1', '[x]:1', 'localhost/..', 'local host'):
            status = w.raw_status('GET /v1/jobs HTTP/1.1', host=host)
            assert status in (400, 421), (host, status)
        assert w.raw_status('GET /v1/jobs HTTP/1.1', host=None) == 400
        status = w.raw_status('GET /v1/jobs HTTP/1.1\r\nHost: localhost', host='evil.example')
        assert status in (400, 421), status
        for host in ('localhost', f'localhost:{w.port}', '127.0.0.1', f'127.0.0.1:{w.port}', '[::1]'):
            assert w.raw_status('GET /v1/jobs HTTP/1.1', host=host) == 200, host


def test_pages_of_others_may_not_ask():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for origin in ('http://evil.example', 'null', 'https://localhost', 'http://localhost:1',
                       f'http://127.0.0.1:{w.port}.evil.example', 'x', f'ftp://127.0.0.1:{w.port}'):
            for role in ('operator', None):
                answer = w.ask('PUT', '/v1/jobs/default/config/lr', b'9', role, Origin=origin)
                assert answer.status == 403, (origin, role, answer)
                assert 'access-control-allow-origin' not in answer.headers, answer
        own = f'http://127.0.0.1:{w.port}'
        answer = w.ask('GET', '/v1/jobs', Origin=own)
        assert answer.status == 200 and 'access-control-allow-origin' not in answer.headers, answer


# ---- questions ----

QUERIES = ('?%zz', '?%', '?a=%00', '?' + '&'.join(f'a{i}=1' for i in range(17)))
NUMBERS = ('x', '-1', '1.5', '', '0x1', '99999999999999999999999', '1e3', ' 1', '%201', '1%00')


def test_questions_that_make_no_sense_are_refused():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for route in web.routes(w):
            if route.method == 'GET':
                for query in QUERIES:
                    answer = w.ask('GET', route.filled() + query, Accept='application/json')
                    web.check_error(answer, 400, (route, query))
        asks = ('/v1/jobs/default/generations?since=', '/v1/jobs/default/config?wait=',
                '/v1/jobs/default/config/lr?wait=', '/v1/jobs/default/events?since=')
        for ask in asks:
            for number in NUMBERS:
                status = w.raw_status(f'GET {ask}{number} HTTP/1.1')
                assert status == 400 or (status, number) == (0, ' 1'), (ask, number, status)


# ---- what it tells of itself ----

def test_promtool_accepts_the_metrics():
    if not shutil.which('promtool'):
        tap.skip('there is no promtool (package prometheus)')
    with web.undisturbed(*kit.SERVE) as (w, _):
        with w.stream('/v1/events'):
            text = w.ask('GET', '/metrics')
        assert text.headers['content-type'].startswith('text/plain; version=0.0.4'), text.headers
        done = subprocess.run(['promtool', 'check', 'metrics'], input=text.body, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0 and done.stdout == b'', done.stdout.decode()


def test_strangers_make_no_new_metrics():
    with web.undisturbed(*kit.SERVE) as (w, _):
        w.ask('GET', '/nothing')
        w.ask('GET', '/v1/jobs', role=None)
        before = w.metrics()
        for n in range(50):
            w.ask('GET', f'/v1/jobs/{n}')
            w.ask('GET', f'/{n}', role='wrong')
            w.ask(f'M{n}', '/v1/jobs')
        after = w.metrics()
        assert set(after) == set(before), set(after) ^ set(before)


def test_health_needs_no_token_and_tells_nothing_more():
    with web.undisturbed(*kit.SERVE) as (w, _):
        for path in ('/healthz', '/readyz'):
            answer = w.ask('GET', path, role=None)
            assert answer.status == 200 and len(answer.body) < 200, answer
            assert b'default' not in answer.body, answer


# ---- where it listens ----

def test_off_loopback_there_is_no_http_without_a_certificate():
    with kit.World() as world:
        done = subprocess.run([kit.MUSTER, 'serve', '--listen', f'127.0.0.1:{kit.free_port()}',
                               '--data', os.path.join(world.dir, 'd'), '--http',
                               f'0.0.0.0:{kit.free_port()}'], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=kit.LONG_S,
                              env=world.env())
        assert done.returncode != 0 and 'certificate' in done.stderr, done


def test_with_a_certificate_it_speaks_https_and_wants_the_same_tokens():
    if not shutil.which('openssl'):
        tap.skip('there is no openssl')
    with kit.World() as world:
        cert, key = (os.path.join(world.dir, name) for name in ('cert.pem', 'key.pem'))
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                        'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', cert, '-days',
                        '2', '-subj', '/CN=muster', '-addext', 'subjectAltName=IP:127.0.0.1'],
                       check=True, capture_output=True)
        os.chmod(key, 0o600)
        orchestrator = web.serve(world, *kit.SERVE, '--http-cert', cert, '--http-key', key,
                                 http_host='0.0.0.0')
        trust = ssl.create_default_context(cafile=cert)
        for path, role, want in (('/healthz', None, 200), ('/v1/jobs', None, 401),
                                 ('/v1/jobs', 'viewer', 200)):
            ask = urllib.request.Request(f'https://127.0.0.1:{orchestrator.web.port}{path}',
                                         headers=orchestrator.web.headers(role))
            try:
                with urllib.request.urlopen(ask, context=trust, timeout=kit.LONG_S) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
            assert status == want, (path, role, status)
        assert web.status_of(orchestrator.web.raw(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')) in (0, 400)


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
