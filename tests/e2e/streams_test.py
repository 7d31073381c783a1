#!/usr/bin/env python3
"""What happens, as it is told over HTTP: history, streams that go on, watches of settings, and many
who listen, or do not.

usage: streams_test.py MUSTER [CASE…]
"""
import contextlib
import datetime
import json
import os
import selectors
import signal
import socket
import threading
import time

import kit
import web
from puppets import Puppets, Stage

LONG_MS = kit.LONG_S * 1000
FIELDS = {'id', 'number', 'time', 'event', 'job', 'generation', 'node', 'worker', 'value', 'reason',
          'text'}


@contextlib.contextmanager
def running(*names, nnodes='1:4'):
    """(web, job, its nodes by name), and at the end all exit with 0."""
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job = orchestrator.job(nnodes=nnodes)
        nodes = dict(zip(names, job.nodes(*names)))
        job.settled(*names)
        yield orchestrator.web, job, nodes
        left = [node for node in nodes.values() if not node.ended()]
        if left:
            job.ends_well(*left)


def make_events(w, job, n):
    """People want what they wanted: an event each, and nobody is moved."""
    for _ in range(n):
        w.put(job.name, 'paused', 'false')


def numbers(events):
    return [e.json()['number'] for e in events]


def check_whole(events):
    """One after the other, none left out, and each is what its data says."""
    found = numbers(events)
    assert found == list(range(found[0], found[0] + len(found))), found
    for e in events:
        assert (e.json()['id'], e.json()['event']) == (e.id, e.kind), e


# ---- history, and what follows ----

def test_a_stream_begins_with_history_and_goes_on_and_commands_say_the_same():
    with running('a', 'b') as (w, job, _):
        with w.stream('/v1/events') as stream:
            assert stream.status == 200 and 'text/event-stream' in stream.parser.head
            stream.until_kind('active')
            make_events(w, job, 20)
            stream.until_kind('resized', 20)
            check_whole(stream.events)
            assert stream.events[0].json()['number'] == 1
            told = [e.json() for e in stream.events]
        history = w.get('/v1/events')['events']
        assert history[:len(told)] == told
        lines = w.orchestrator.say('events', '--json').splitlines()
        assert [{**e, 'id': None} for e in map(json.loads, lines)][:len(told)] == \
            [{**e, 'id': None} for e in told]
        times = [datetime.datetime.fromisoformat(e['time']) for e in history]
        assert times == sorted(times)
        assert all(set(e) == FIELDS for e in history), history


def test_whoever_was_cut_off_goes_on_after_the_last_event_that_it_had():
    with running('a') as (w, job, _):
        path = f'/v1/jobs/{job.name}/events'
        with w.stream(path) as stream:
            make_events(w, job, 5)
            last = stream.until_kind('resized', 5)
        make_events(w, job, 7)
        with w.stream(path, Last_Event_ID=last.id) as stream:
            stream.until_kind('resized', 7)
            make_events(w, job, 1)
            stream.until_kind('resized', 8)
            assert [e.kind for e in stream.events] == ['resized'] * 8
            assert numbers(stream.events)[0] == last.json()['number'] + 1
            check_whole(stream.events)


def test_over_a_restart_nothing_of_the_new_life_is_left_out():
    with running('a') as (w, job, _):
        path = f'/v1/jobs/{job.name}/events'
        make_events(w, job, 30)
        with w.stream(path) as stream:
            last = stream.until_kind('resized', 30)
            w.orchestrator.restart()
            stream.until(lambda _: stream.ended or not stream.read(0.1), 'the stream had ended')
        for name in ('/v1/events', path):
            # Its number is of another life, and larger than any of this one.
            with w.stream(name, Last_Event_ID=last.id) as stream:
                make_events(w, job, 3)
                stream.until_kind('resized', 3)
                found = [e for e in stream.events if e.kind != 'gap']
                first = found[0].json()['number']
                assert first == 1 or name == path, stream.events
                assert found[0].id.rpartition('-')[0] != last.id.rpartition('-')[0]
                if name != path:
                    check_whole(found)
                    assert found[0].kind == 'restarted', stream.events
            w.orchestrator.restart()


def test_an_id_that_is_none_is_refused_or_begins_anew():
    with running('a') as (w, job, _):
        for bad in ('x', '7', '-1', 'x-y', '99999999999999999999999', 'a' * 200):
            answer = w.stream('/v1/events', Last_Event_ID=bad)
            with answer:
                if answer.status == 200:
                    answer.until_kind('active')
                    assert answer.events[0].kind == 'gap' or numbers(answer.events)[0] == 1
                else:
                    assert answer.status == 400, (bad, answer.parser.head)
        make_events(w, job, 1)


def test_a_stream_of_one_job_has_nothing_of_another():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        jobs = [orchestrator.job(name, nnodes='1') for name in ('one', 'two')]
        nodes = [job.nodes('a')[0] for job in jobs]
        for job in jobs:
            job.settled('a')
        w = orchestrator.web
        with w.stream('/v1/jobs/one/events') as stream, w.stream('/v1/events') as both:
            for _ in range(5):
                for job in jobs:
                    make_events(w, job, 1)
            both.until_kind('resized', 10)
            stream.until_kind('resized', 5)
            # What is about the orchestrator is about all jobs.
            assert {e.json()['job'] for e in stream.events} == {None, 'one'}, stream.events
            assert {e.json()['job'] for e in both.events} == {None, 'one', 'two'}
            want = [e.id for e in both.events if e.json()['job'] != 'two']
            assert [e.id for e in stream.events] == want
        assert w.ask('GET', '/v1/jobs/three/events').status == 404
        for job, node in zip(jobs, nodes):
            job.ends_well(node)


# ---- the vocabulary ----

def of(events, kind, **fields):
    return [e for e in events if e['event'] == kind and
            all(e[name] == value for name, value in fields.items())]


def test_each_thing_that_happens_is_told_with_whom_it_happened_to_and_why():
    with running('a', 'b', 'c') as (w, job, nodes):
        with w.stream(f'/v1/jobs/{job.name}/events') as stream:
            first = generation = job.status()['generation']
            nodes['c'].kill9()
            stream.until(lambda events: [e for e in events if e.kind == 'active' and
                                         e.json()['generation'] > generation], 'it went on')
            job.settled('a', 'b', after=generation)
            generation = job.status()['generation']
            w.orchestrator.say('drain', 'b', '--job', job.name)
            stream.until_kind('drained', node='b')
            assert nodes['b'].wait() == 0
            job.settled('a', after=generation)
            w.put(job.name, 'max', '3')
            stream.until_kind('resized')
            job.finish()
            assert nodes['a'].wait() == 0
            stream.until_kind('ended')
            found = [e.json() for e in stream.events]
    assert all(set(e) == FIELDS for e in found), found
    assert all(e['job'] == job.name or e['event'] == 'restarted' for e in found), found
    assert all(e['time'] and e['text'] and e['number'] for e in found), found
    for name in 'abc':
        assert of(found, 'joined', node=name), (name, found)
    made = of(found, 'generation')
    assert [e['value'] for e in made][-3:] == [3, 2, 1] and all(e['reason'] for e in made), made
    grown = [e['generation'] for e in made]
    active = [e['generation'] for e in of(found, 'active')]
    # One that was made before all three were there may never have become active.
    assert grown == sorted(set(grown)) and set(active) <= set(grown), found
    assert [g for g in grown if g >= first] == [g for g in active if g >= first], found
    lost = of(found, 'lost', node='c')
    assert lost and all(e['reason'] for e in lost), found
    assert any(e['worker'] for e in found if e['node']), found
    assert of(found, 'draining', node='b') and of(found, 'drained', node='b'), found
    assert of(found, 'resized')[0]['reason'] == 'max is 3', found
    assert of(found, 'finished') and of(found, 'ended'), found
    order = [e['event'] for e in found]
    assert order.index('joined') < order.index('generation') < order.index('active') < \
        order.index('lost') < order.index('draining') < order.index('drained') < \
        order.index('resized') < order.index('finished') < order.index('ended'), order


def test_workers_that_warm_up_and_nodes_that_are_refused_are_told_too():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess', nnodes='1:2')
        w = stage.orchestrator.web
        with w.stream('/v1/events') as stream:
            found = stage.workers('a')
            warm = stream.until_kind('warm', node='a').json()
            assert warm['worker'] and warm['job'] == stage.job.name, warm
            other = kit.Job(world, stage.orchestrator, 'other')
            other.name, other.nnodes = stage.job.name, '3:9'  # Not what this job is.
            node = other.node('x')
            refused = stream.until_kind('refused').json()
            assert refused['reason'], refused
            node.kill9()
            stage.leave(found)


def test_a_worker_that_falls_silent_is_lost_and_back_and_a_new_orchestrator_says_so():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.LAPSING), puppets, 'inprocess', nnodes='1:2')
        w = stage.orchestrator.web
        found = stage.workers('a', 'b')
        with w.stream('/v1/events') as stream:
            os.kill(puppets.one('b').pid, signal.SIGSTOP)
            lost = stream.until_kind('lost', node='b', job=stage.job.name).json()
            assert lost['reason'] and lost['worker'], lost
            os.kill(puppets.one('b').pid, signal.SIGCONT)

            def returned(events):
                """Heard again as who it was; or, if it is told first that it was left out, as another."""
                for event in (e.json() for e in events if e.data):
                    if event['number'] > lost['number'] and event['node'] == 'b':
                        if event['event'] == 'back' or (event['event'] == 'warm' and
                                                        event['worker'] != lost['worker']):
                            return event
                return None
            assert stream.until(returned, 'b is back')
        w.orchestrator.restart()
        with w.stream('/v1/events') as stream:
            first = stream.until_kind('restarted').json()
            assert first['number'] == 1 and first['job'] is None, first
        kit.wait_until(lambda: stage.job.members() == ['a', 'b'], 'both were in')
        stage.leave(found)


# ---- settings ----

def test_a_watch_by_stream_tells_every_change_of_what_it_watches():
    with running('a') as (w, job, _):
        first = w.put(job.name, 'x/a', '1')
        with w.stream(f'/v1/jobs/{job.name}/config') as every, \
                w.stream(f'/v1/jobs/{job.name}/config/x/a') as one:
            every.until(lambda events: events, 'it said what there is')
            one.until(lambda events: events, 'it said what there is')
            w.put(job.name, 'y', 'other')
            second = w.put(job.name, 'x/a', '2')
            w.remove(job.name, 'x/a')
            third = w.put(job.name, 'x/a', '3')

            def values(events):
                return [(e.json().get('version'), e.json().get('value')) for e in events
                        if e.data and e.json().get('key') == 'x/a']

            for stream in (every, one):
                stream.until(lambda events: (third, '3') in values(events), 'the last was told')
                seen = values(stream.events)
                assert (first, '1') in seen and (second, '2') in seen, seen
                assert (second + 1, None) in seen, seen  # That it was removed.
                assert [v for v, _ in seen] == sorted(v for v, _ in seen), seen
            assert not [e for e in one.events if e.data and e.json().get('key') == 'y']
            assert [e for e in every.events if e.data and e.json().get('key') == 'y']


def test_a_long_poll_is_answered_when_something_changes():
    with running('a') as (w, job, _):
        path = f'/v1/jobs/{job.name}/config'
        version = w.put(job.name, 'lr', '1')
        answers = []
        threads = [threading.Thread(target=lambda p=p: answers.append(w.ask('GET', p)))
                   for p in (f'{path}/lr?wait={version}', f'{path}?wait={version}') * 4]
        for thread in threads:
            thread.start()
        # The one who asks for metrics has a connection too.
        kit.wait_until(lambda: w.metrics()['muster_http_connections'] == len(threads) + 1, 'they had asked')
        assert not answers
        w.put(job.name, 'lr', '2')
        for thread in threads:
            thread.join()
        assert [a.status for a in answers] == [200] * 8, answers
        assert all(b'2' in a.body and a.version > version for a in answers), answers
        # Something that has changed already is told at once.
        assert w.ask('GET', f'{path}/lr?wait={version}').body == b'2'


def test_long_polls_do_not_outlive_those_who_asked():
    with running('a') as (w, job, _):
        version = w.put(job.name, 'lr', '1')
        head = (f'GET /v1/jobs/{job.name}/config/lr?wait={version} HTTP/1.1\r\nHost: localhost\r\n'
                f'Authorization: Bearer {w.tokens["viewer"]}\r\n\r\n').encode()
        for _ in range(5):
            socks = [w.connect() for _ in range(60)]
            for sock in socks:
                sock.sendall(head)
            for sock in socks:
                sock.close()
        w.put(job.name, 'lr', '2')  # Whoever is gone is noticed when there is something to say, at the latest.
        kit.wait_until(lambda: w.metrics()['muster_http_connections'] == 1, 'none was left')


# ---- many ----

class Crowd:
    """Readers and those who never read, of one stream."""

    def __init__(self, w, path, readers_n, deaf_n):
        headers = {**w.headers('viewer'), 'Accept': 'text/event-stream'}
        self.deaf = [self.deaf_one(w, path, headers) for _ in range(deaf_n)]
        self.readers = [web.Stream(w, path, headers, send_only=True) for _ in range(readers_n)]
        self.selector = selectors.DefaultSelector()
        for reader in self.readers:
            self.selector.register(reader.sock, selectors.EVENT_READ, reader)

    @staticmethod
    def deaf_one(w, path, headers):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(('127.0.0.1', w.port))
        sock.sendall('\r\n'.join([f'GET {path} HTTP/1.1', 'Host: localhost', *(
            f'{n}: {v}' for n, v in headers.items()), '', '']).encode())
        return sock

    def read_until(self, fits, what):
        """Until that is true of every reader."""
        until = time.monotonic() + kit.LONG_S
        while not all(fits(r.events) for r in self.readers):
            assert time.monotonic() < until, f'{what}: {[len(r.events) for r in self.readers]}'
            for key, _ in self.selector.select(0.1):
                assert key.data.read(), f'a stream ended: {key.data.parser.head}'

    def close(self):
        for sock in self.deaf:
            sock.close()
        for reader in self.readers:
            reader.sock.close()


def test_200_streams_some_never_read_cost_little_and_every_reader_gets_every_event():
    turns_n, each_n = (40, 100) if kit.FULL else (2, 100)
    with running('a', 'b') as (w, job, nodes):
        path = f'/v1/jobs/{job.name}/events'
        before = job.status()
        before_kib = web.resident_kib(w.orchestrator.pid)
        crowd = Crowd(w, path, 150, 50)
        try:
            crowd.read_until(lambda events: events, 'all had begun')
            for turn in range(1, turns_n + 1):
                make_events(w, job, each_n)
                crowd.read_until(lambda events, n=turn * each_n: len(events) >= n, 'all had more')
            last = w.get(path)['events'][-1]['number']
            crowd.read_until(lambda events: events[-1].json()['number'] == last, 'all had all')
            during_kib = web.resident_kib(w.orchestrator.pid)
            want = [e.id for e in crowd.readers[0].events]
            assert len(want) >= turns_n * each_n
            for reader in crowd.readers:
                assert [e.id for e in reader.events] == want
                assert not [e for e in reader.events if e.kind == 'gap']
            # Some 4 KiB of state each and a ring of events for all, not a queue for each.
            print(f'# {during_kib - before_kib} KiB for 200 streams', flush=True)
            assert during_kib - before_kib < 24 << 10, (before_kib, during_kib)
            assert w.ask('GET', '/readyz').status == 200
        finally:
            crowd.close()
        after = job.status()
        assert after['generation'] == before['generation'] and after['members'] == before['members']
        assert not w.orchestrator.events(job.name, 'lost')
        assert not any('went away' in node.log() for node in nodes.values())
        # Whoever is gone is noticed when there is something to say, at the latest.
        kit.wait_until(lambda: make_events(w, job, 1) or w.metrics()['muster_http_streams'] == 0,
                       'none was left')


def test_more_streams_than_are_allowed_are_told_so_and_others_are_served():
    with running('a') as (w, job, _):
        crowd = Crowd(w, '/v1/events', 320, 0)
        try:
            crowd.read_until(lambda events: events, 'all had begun')
            with w.stream('/v1/events') as one:
                assert one.status == 503, one.parser.head
            answer = w.ask('GET', '/v1/jobs')
            assert answer.status == 200, answer
        finally:
            crowd.close()
        make_events(w, job, 3)


def test_the_orchestrator_ends_in_time_though_streams_are_open():
    with running('a') as (w, job, _):
        crowd = Crowd(w, '/v1/events', 20, 20)
        try:
            crowd.read_until(lambda events: events, 'all had begun')
            assert w.orchestrator.terminate(signal.SIGTERM) == 0
        finally:
            crowd.close()
        w.orchestrator.start()
        make_events(w, job, 1)


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
