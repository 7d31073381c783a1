"""Renewals while many watch, and how many requests are answered."""
import json
import os
import socket
import subprocess
import sys
import threading
import time

from control.measure import load
from control.process import Failed, Serve, end, environment, wait_for
from control.scale import Swarm, Watch, quantile_ms

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = 'job-0'  # the swarm's first


class WebServe(Serve):
    """`muster serve --http`, on a free port too."""

    def __init__(self, muster, folder, *flags):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        super().__init__(muster, folder, '--http', f'127.0.0.1:{self.port}', *flags)
        self.bearer = subprocess.run([muster, 'token', '--data', f'{folder}/data', '--role',
                                      'operator'], stdout=subprocess.PIPE, check=True, text=True,
                                     env=environment(folder)).stdout.strip()


class Asker:
    """One connection that asks again and again."""

    def __init__(self, serve):
        self.serve = serve
        self.sock = socket.create_connection(('127.0.0.1', serve.port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method, path, body=b'', headers=''):
        """(status, head, body)"""
        self.sock.sendall(f'{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer '
                          f'{self.serve.bearer}\r\nContent-Length: {len(body)}\r\n{headers}\r\n'
                          .encode() + body)
        data = b''
        while b'\r\n\r\n' not in data:
            data += self.more()
        head, _, rest = data.partition(b'\r\n\r\n')
        lower = head.lower()
        want = int(lower.split(b'content-length:')[1].split(b'\r\n')[0]) \
            if b'content-length:' in lower else 0
        while len(rest) < want:
            rest += self.more()
        return int(head.split()[1]), lower, rest

    def more(self):
        part = self.sock.recv(1 << 18)
        if not part:
            raise Failed('the server closed a connection')
        return part

    def put(self, key, value, version=None):
        """Compare-and-set; the new version."""
        condition = '' if version is None else f'If-Match: "{version}"\r\n'
        status, head, body = self.ask('PUT', f'/v1/jobs/{JOB}/config/{key}', value.encode(),
                                      condition)
        if status not in (200, 201, 204):
            raise Failed(f'a put was answered with {status}: {body!r}')
        return int(head.split(b'etag:')[1].split(b'"')[1])

    def close(self):
        self.sock.close()


class Writers:
    """One that changes what people want of the job, in words only, so that there are events; and
    one that sets a key by its version."""

    def __init__(self, serve, events_s, puts_s):
        self.stop = threading.Event()
        self.events_n = self.puts_n = 0
        self.error = None
        self.threads = [threading.Thread(target=self.run, args=(serve, 1 / events_s, self.event)),
                        threading.Thread(target=self.run, args=(serve, 1 / puts_s, self.put))]
        self.version = None
        for thread in self.threads:
            thread.start()

    def run(self, serve, pause_s, act):
        asker = Asker(serve)
        try:
            while not self.stop.wait(pause_s):
                act(asker)
        except (OSError, Failed) as error:
            self.error = error
        finally:
            asker.close()

    def event(self, asker):
        asker.put('paused', 'false')
        self.events_n += 1

    def put(self, asker):
        self.version = asker.put('bench/key', 'x' * 100, self.version)
        self.puts_n += 1

    def close(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if self.error is not None:
            raise Failed(f'a writer failed: {self.error}')


class Clients:
    def __init__(self, serve, readers_n, deaf_n):
        asker = Asker(serve)
        last = json.loads(asker.ask('GET', f'/v1/jobs/{JOB}/events')[2])['last']
        asker.close()
        self.process = subprocess.Popen(
            [sys.executable, f'{HERE}/clients.py', str(serve.port), serve.bearer,
             f'/v1/jobs/{JOB}/events?since={last}', str(readers_n), str(deaf_n)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed('the clients ended')
        return json.loads(line)

    def count(self):
        self.process.stdin.write('count\n')
        return self.hear()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        end(self.process)


class Busy:
    """All of that for as long as one watches."""

    def __init__(self, report, serve, swarm, seconds, readers_n=150, deaf_n=50):
        self.report = report
        self.serve = serve
        self.swarm = swarm
        self.seconds = seconds
        self.readers_n = readers_n
        self.deaf_n = deaf_n
        self.quiet = []
        self.loud = []
        self.seen = []
        self.rss = []

    def once(self):
        time.sleep(1)
        before = self.serve.rss()
        self.quiet.append(Watch(self.serve, self.swarm, self.seconds))
        clients = Clients(self.serve, self.readers_n, self.deaf_n)
        writers = Writers(self.serve, 20, 50)
        try:
            time.sleep(1)
            self.loud.append(Watch(self.serve, self.swarm, self.seconds))
            during = self.serve.rss()
        finally:
            writers.close()
        last = wait_for('all readers have all events',
                        lambda: self.all_heard(clients, writers.events_n), 0.05)
        clients.close()
        wait_for('the streams are closed', self.all_gone, 0.1)
        if last['gaps'] or last['ended'] or last['events'] != self.readers_n * writers.events_n:
            raise Failed(f'{writers.events_n} events, but the readers had: {last}')
        lasted = self.seconds + 1
        self.seen.append((last['events'] / lasted, writers.puts_n / lasted))
        self.rss.append((before, during))

    def all_gone(self):
        """Who has gone is noticed when there is something to say, or after 15 s."""
        asker = Asker(self.serve)
        try:
            asker.put('paused', 'false')
            return b'\nmuster_http_streams 0\n' in asker.ask('GET', '/metrics')[2]
        finally:
            asker.close()

    @staticmethod
    def all_heard(clients, want):
        now = clients.count()
        return now if now['least'] >= want or now['ended'] else None

    def tell(self, what):
        times = {}
        for name, watches in (('without', self.quiet), ('with', self.loud)):
            for part, word in ((0.5, 'median'), (0.99, 'p99')):
                times[name, word] = [quantile_ms(w.seen['rtt_us'], part) for w in watches]
                self.report.add_all(f'{what}, {name} streams: renewal, {word}', times[name, word],
                                    'ms', renewals=sum(w.seen['acks'] for w in watches),
                                    load=load())
            self.report.add_all(f'{what}, {name} streams: server', [w.server for w in watches],
                                '% of a core')
        for word in ('median', 'p99'):
            ratios = [a / max(b, 0.001) for a, b in zip(times['with', word],
                                                        times['without', word])]
            self.report.add_all(f'{what}: renewal, {word}: with streams by without', ratios,
                                'times')
        self.report.add_all(f'{what}: events read', [s[0] for s in self.seen], '/s',
                            readers=self.readers_n, never_read=self.deaf_n)
        self.report.add_all(f'{what}: compare-and-set meanwhile', [s[1] for s in self.seen], '/s')
        self.report.add_all(f'{what}: memory of {self.readers_n + self.deaf_n} streams',
                            [(during - self.rss[0][0]) / 1024 for _, during in self.rss], 'KiB')
        self.report.add(f'{what}: memory of the server at the end', self.serve.rss() / 1024, 'KiB')


def ask_often(serve, askers_n, seconds, ask):
    """How many a second, by so many at a time; ask(asker, number of the asker)."""
    done = [0] * askers_n
    until = time.monotonic() + seconds

    def run(i):
        asker = Asker(serve)
        try:
            while time.monotonic() < until:
                ask(asker, i)
                done[i] += 1
        finally:
            asker.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(askers_n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(done):
        raise Failed('somebody was never answered')
    return sum(done) / seconds


def get_jobs(asker, _):
    status, _, body = asker.ask('GET', '/v1/jobs')
    if status != 200 or not body.startswith((b'{', b'[')):
        raise Failed(f'/v1/jobs: {status}')


class Setter:
    """A key each, set by its version."""

    def __init__(self):
        self.versions = {}

    def put(self, asker, i):
        self.versions[i] = asker.put(f'bench/{i}', 'x' * 100, self.versions.get(i))


def rates(report, serve, what, seconds, times):
    for askers_n in (1, 8):
        many = f'{askers_n} connection{"s" * (askers_n > 1)}'
        setter = Setter()
        report.add_all(f'{what}: GET /v1/jobs, {many}',
                       [ask_often(serve, askers_n, seconds, get_jobs) for _ in range(times)], '/s',
                       load=load())
        report.add_all(f'{what}: compare-and-set, {many}',
                       [ask_often(serve, askers_n, seconds, setter.put) for _ in range(times)],
                       '/s', load=load())


class Bench:
    def __init__(self, report, programs, folder):
        self.report = report
        self.programs = programs
        self.folder = folder

    def run(self, nodes, per_job, seconds, times, asked_s=0.0, **clients):
        """With so many nodes: pairs of watches, one after the other; then requests, if wanted."""
        serve = WebServe(self.programs['muster'], os.path.join(self.folder, f'http-{nodes}'),
                         '--jobs-max', '128')
        swarm = Swarm(self.programs['swarm'], serve, nodes, per_job)
        what = f'{nodes:,} nodes'
        try:
            swarm.admit()
            time.sleep(2)
            busy = Busy(self.report, serve, swarm, seconds, **clients)
            for _ in range(times):
                busy.once()
            busy.tell(what)
            if asked_s:
                rates(self.report, serve, what, asked_s, times)
        finally:
            swarm.close()
            serve.close()


def quick(report, programs, folder):
    Bench(report, programs, folder).run(50, 25, 2, 1, 0.5, readers_n=30, deaf_n=10)


def run(report, programs, folder):
    bench = Bench(report, programs, folder)
    bench.run(200, 100, 10, 5, 2)
    bench.run(1000, 100, 10, 5)
