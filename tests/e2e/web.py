"""An orchestrator's HTTP side, as tests see it.

    orchestrator = web.serve(world, *kit.SERVE)
    w = orchestrator.web
    answer = w.ask('GET', '/v1/jobs')               # as the operator, unless told otherwise
    w.put('default', 'lr', '0.1', expect=0)         # 201, or an error that says what came instead
    with w.stream('/v1/jobs/default/events') as events: …
"""
import contextlib
import http.client
import json
import re
import select
import socket
import subprocess
import time

import kit

ROLES = ('viewer', 'operator')
GONE = (OSError, http.client.HTTPException)  # What one who asks sees of an orchestrator that dies.


def serve(world, *flags, http_host='127.0.0.1', **env):
    """An orchestrator with HTTP on a port that it keeps over restarts."""
    port = kit.free_port()
    one = kit.Orchestrator(world, 'serve', ('--http', f'{http_host}:{port}', *flags), env)
    one.start()
    one.web = Web(one, port)
    return one


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def __repr__(self):
        return f'{self.status} {self.headers} {self.body[:300]!r}'

    def json(self):
        return json.loads(self.body)

    @property
    def version(self):
        """Of a setting, as its entity tag has it."""
        return int(self.headers['etag'].strip('"'))


class Web:
    def __init__(self, orchestrator, port):
        self.orchestrator = orchestrator
        self.port = port
        self.tokens = {role: self.token(role) for role in ROLES}
        self.tokens.update({None: None, 'wrong': '0' * 64})

    def token(self, role):
        done = subprocess.run([kit.MUSTER, 'token', '--data', self.orchestrator.data, '--role',
                               role], stdout=subprocess.PIPE, text=True, check=True,
                              timeout=kit.LONG_S, env=self.orchestrator.world.env())
        return done.stdout.strip()

    def headers(self, role):
        token = self.tokens[role]
        return {} if token is None else {'Authorization': f'Bearer {token}'}

    # ---- one request each ----

    def ask(self, method, path, body=None, role='operator', wait_s=kit.LONG_S, **headers):
        """Headers by name, with '_' for '-'."""
        more = {name.replace('_', '-'): value for name, value in headers.items()}
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=wait_s)
        try:
            connection.request(method, path, body, {**self.headers(role), **more})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def get(self, path, status=200, **more):
        """JSON that must be there."""
        answer = self.ask('GET', path, **more)
        assert answer.status == status, (path, answer)
        return answer.json()

    def metrics(self, connection=None):
        """By name, with labels as they are written; over a connection of one's own, if there is one."""
        if connection is None:
            body = self.ask('GET', '/metrics').body
        else:
            connection.request('GET', '/metrics', headers=self.headers('viewer'))
            body = connection.getresponse().read()
        found = {}
        for line in body.decode().splitlines():
            if line and line[0] != '#':
                name, value = line.rsplit(' ', 1)
                found[name] = float(value)
        return found

    # ---- settings ----

    def try_put(self, job, key, value, expect=None, **more):
        """expect: the key's version; 0: it must not be there; None: whatever it is."""
        if expect is not None:
            more |= {'If_None_Match': '*'} if expect == 0 else {'If_Match': f'"{expect}"'}
        return self.ask('PUT', f'/v1/jobs/{job}/config/{key}', value, **more)

    def put(self, job, key, value, expect=None):
        """Its new version."""
        answer = self.try_put(job, key, value, expect)
        assert answer.status in (200, 201, 204), (key, value, answer)
        return answer.version

    def value(self, job, key):
        """(value, version), or None if there is no such key."""
        answer = self.ask('GET', f'/v1/jobs/{job}/config/{key}')
        if answer.status == 404:
            return None
        assert answer.status == 200, answer
        return answer.body.decode(), answer.version

    def remove(self, job, key):
        answer = self.ask('DELETE', f'/v1/jobs/{job}/config/{key}')
        assert answer.status in (200, 204), (key, answer)

    # ---- streams, and what is no HTTP ----

    def connect(self, wait_s=kit.LONG_S):
        return socket.create_connection(('127.0.0.1', self.port), timeout=wait_s)

    def stream(self, path, role='operator', **headers):
        more = {name.replace('_', '-'): value for name, value in headers.items()}
        return Stream(self, path, {**self.headers(role), 'Accept': 'text/event-stream', **more})

    def raw(self, data, begin=False):
        """Says these bytes; what comes until the other side closes, or what comes first."""
        parts = []
        with self.connect() as sock:
            try:
                sock.sendall(data)
            except OSError:  # Reset; an answer may be there all the same.
                pass
            try:
                while part := sock.recv(65536):
                    parts.append(part)
                    if begin:
                        break
            except ConnectionError:
                pass
            except TimeoutError:
                raise AssertionError(f'{data[:80]} was neither answered nor closed') from None
        return b''.join(parts)

    def cut_off(self, data):
        """The status, if there is one, of somebody who goes away in the middle of these bytes: when another, who
        asked later, has been answered."""
        with self.connect() as sock:
            try:
                sock.sendall(data)
            except OSError:  # Reset; an answer may be there all the same.
                pass
            assert self.ask('GET', '/v1/jobs').status == 200
            sock.setblocking(False)
            try:
                return status_of(sock.recv(65536))
            except OSError:  # Reset, or nothing came.
                return 0

    def raw_status(self, head, body=b'', role='operator', host='127.0.0.1'):
        """The status of one request whose first line and headers are these, word for word; 0: it
        was closed without any."""
        lines = [head] if isinstance(head, bytes) else [head.encode('latin-1')]
        lines += [f'Host: {host}'.encode('latin-1')] if host is not None else []
        lines += [f'{name}: {value}'.encode() for name, value in self.headers(role).items()]
        answer = self.raw(b'\r\n'.join([*lines, b'Connection: close', b'', b'']) + body)
        return status_of(answer)


def status_of(answer):
    found = re.match(rb'HTTP/1\.[01] (\d{3}) ', answer)
    return int(found.group(1)) if found else 0


class Event:
    def __init__(self, block):
        self.id = self.kind = None
        self.comment = True
        data = []
        for line in block.split('\n'):
            name, colon, value = line.partition(':')
            value = value[1:] if value[:1] == ' ' else value
            if name:
                self.comment = False
            if name == 'id':
                self.id = value
            elif name == 'event':
                self.kind = value
            elif name == 'data' and colon:
                data.append(value)
        self.data = '\n'.join(data)

    def __repr__(self):
        return f'<{self.kind} {self.id} {self.data}>'

    def json(self):
        return json.loads(self.data)


class Parser:
    """Bytes of an answer in, events out, however they are cut."""

    def __init__(self):
        self.head = None
        self.raw = b''
        self.text = b''

    def feed(self, part):
        self.raw += part
        if self.head is None:
            head, end, rest = self.raw.partition(b'\r\n\r\n')
            if not end:
                return []
            self.head = head.decode('latin-1')
            self.raw = rest
        self._dechunk()
        blocks = self.text.split(b'\n\n')
        self.text = blocks.pop()
        return [e for e in (Event(b.decode()) for b in blocks) if not e.comment]

    def _dechunk(self):
        if 'chunked' not in self.head.lower():
            self.text, self.raw = self.text + self.raw, b''
            return
        while True:
            size, end, rest = self.raw.partition(b'\r\n')
            if not end:
                return
            n = int(size.split(b';')[0], 16)
            if len(rest) < n + 2:
                return
            self.text += rest[:n]
            self.raw = rest[n + 2:]


class Stream:
    """Server-sent events."""

    def __init__(self, where, path, headers, send_only=False):
        self.sock = where.connect()
        lines = [f'GET {path} HTTP/1.1', f'Host: 127.0.0.1:{where.port}',
                 *(f'{name}: {value}' for name, value in headers.items()), '', '']
        self.sock.sendall('\r\n'.join(lines).encode())
        self.parser = Parser()
        self.events = []
        self.ended = False
        if not send_only:
            kit.wait_until(lambda: self.read(0.05) or self.parser.head or self.ended,
                           'a stream had begun')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    @property
    def status(self):
        return status_of((self.parser.head or '').encode() + b' ')

    def read(self, wait_s=0.0):
        """Takes what is there, or comes soon; True while the stream goes on."""
        if not self.ended and select.select([self.sock], [], [], wait_s)[0]:
            try:
                part = self.sock.recv(1 << 18)
            except ConnectionResetError:
                part = b''
            self.ended = not part
            self.events += self.parser.feed(part)
        return not self.ended

    def until(self, fits, what, bound_s=kit.LONG_S):
        """Reads until fits(events) gives something true."""
        until = time.monotonic() + bound_s
        while True:
            found = fits(self.events)
            if found:
                return found
            if self.ended or time.monotonic() > until:
                raise AssertionError(f'{what}: {"the stream ended" if self.ended else "not seen"}; '
                                     f'there were {self.events}')
            self.read(0.1)

    def until_kind(self, kind, n=1, **fields):
        """Until n events of this kind with these fields have come; the last."""
        def fits(events):
            found = [e for e in events if e.kind == kind and
                     all(e.json().get(name) == value for name, value in fields.items())]
            return found[n - 1] if len(found) >= n else None
        return self.until(fits, f'{kind} {fields} × {n}')


def _status_kib(pid, name):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def resident_kib(pid):
    """Of a build with sanitizers, which keeps what was freed, that says nothing: always 0."""
    is_sanitized = _status_kib(pid, 'VmSize') > 1 << 30
    return 0 if is_sanitized else _status_kib(pid, 'VmRSS')


# ---- a job that nobody may disturb ----

class Route:
    def __init__(self, method, path, role):
        self.method = method
        self.path = path
        self.role = role

    def __repr__(self):
        return f'{self.method} {self.path} ({self.role})'

    def filled(self, job='default', key='lr'):
        """A target that fits it."""
        parts = []
        for part in self.path.split('/'):
            name = part.strip('{}.')
            parts.append({'key': key, 'job': job, 'name': job, 'file': 'index.html'}.get(name.lower(), 'x')
                         if part[:1] == '{' else part)
        return '/'.join(parts)

    @property
    def changes(self):
        return self.method not in ('GET', 'HEAD')


def routes(w):
    """All there are, as the server itself says."""
    return [Route(r['method'], r['path'], r['role']) for r in w.get('/', role=None)['routes']]


class State:
    """What must not have changed."""

    def __init__(self, w, job):
        self.job = w.get(f'/v1/jobs/{job.name}')
        self.config = w.get(f'/v1/jobs/{job.name}/config')
        self.record = w.orchestrator.own_status()['journal']['record']
        self.pids = sorted(r['pid'] for r in job.reports())
        self.lost = w.orchestrator.events('', 'lost')

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return str(vars(self))


@contextlib.contextmanager
def undisturbed(*flags, changes=False):
    """(web, job) of a job that must neither notice nor change, whatever the case does."""
    with kit.World() as world:
        orchestrator = serve(world, *flags)
        w = orchestrator.web
        job = orchestrator.job(nnodes='2')
        nodes = job.nodes('a', 'b')
        job.settled('a', 'b')
        w.put(job.name, 'lr', '0.1')
        before = State(w, job)
        yield w, job
        kit.wait_until(lambda: healthy(w), 'it was healthy')
        if not changes:
            kit.wait_until(lambda: w.metrics()['muster_http_connections'] == 1, 'it knew that all others had gone')
            after = State(w, job)
            assert before == after, f'{before}\n{after}'
        for token in w.tokens.values():
            assert token is None or token not in orchestrator.log(), 'a token is in the log'
        job.ends_well(*nodes)
        assert sorted(r['pid'] for r in job.reports()) == before.pids, 'a script was restarted'


def healthy(w):
    try:
        return w.ask('GET', '/healthz', role=None, wait_s=5).status == 200
    except GONE:
        return False


def check_error(answer, status, what):
    """It says what happened, as JSON."""
    assert answer.status == status, (what, answer)
    assert answer.headers['content-type'].startswith('application/json'), (what, answer)
    found = answer.json()
    assert found['error'] and set(found) <= {'error', 'hint', 'version'}, (what, answer)


def request(w, method, path, *headers, role='operator'):
    lines = [f'{method} {path} HTTP/1.1', 'Host: localhost', *headers,
             *(f'{n}: {v}' for n, v in w.headers(role).items()), '', '']
    return '\r\n'.join(lines).encode()
