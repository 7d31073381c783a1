#!/usr/bin/env python3
"""Compare-and-set by many at once, over HTTP, from workers and by commands, while the orchestrator
is killed again and again: no update is lost, and none is made twice.

usage: cas_test.py MUSTER [CASE…]
"""
import os
import random
import tempfile
import threading
import time

import kit
import web
from puppets import Puppets, Stage

KEY = 'list'
KILLS_N = 40 if kit.FULL else 5
KILLS_MAX = 200  # … until one has left an update unanswered
UPDATES_N = 12  # at least so many are acknowledged between two kills
REST_S = 0.6    # at most, after an update: commands are slow, and may win at times too
SLOW_MS = 20    # of a write
ROOM = 48 << 10  # of the value: clients stop there


class Client:
    """Appends its tokens to one value, each once, whatever happens: how it reads and writes is up
    to those below. None: nobody answered."""

    def __init__(self, name):
        self.name = name
        self.acked = []     # (version, value) of each update that was acknowledged
        self.read = []      # (version, value) as it was read, one after the other
        self.tokens = []    # all that it knows to be in the value
        self.resolved_n = 0  # … of these, known from reading only
        self.error = None
        self.stop = threading.Event()

    def get(self):
        """(value, version)"""
        raise NotImplementedError

    def put(self, value, version):
        """The new version; 0: somebody else was faster; None: nobody knows."""
        raise NotImplementedError

    def append(self, token):
        """Until it is in the value, or the end has come before it was even tried."""
        unknown = False
        while True:
            found = self.get()
            if found is None:
                time.sleep(0.01)
                continue
            value, version = found
            self.read.append((version, value))
            if token in value.split():
                assert unknown, f'{token} is in it, though nobody had put it there'
                self.resolved_n += 1
                return True
            if self.stop.is_set() and not unknown:
                return False
            new = f'{value} {token}'.strip()
            done = self.put(new, version)
            if done:
                self.acked.append((done, new))
                return True
            # Even a conflict may be with one's own update, of which nobody knew.
            unknown = unknown or done is None

    def run(self):
        try:
            n = 0
            while not self.stop.is_set() and self.append(f'{self.name}.{n}'):
                self.tokens.append(f'{self.name}.{n}')
                n += 1
                self.stop.wait(random.random() * REST_S)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


class ByHttp(Client):
    def __init__(self, name, where, job):
        super().__init__(name)
        self.web = where
        self.job = job

    def get(self):
        try:
            return self.web.value(self.job, KEY)
        except web.GONE:
            return None

    def put(self, value, version):
        try:
            answer = self.web.try_put(self.job, KEY, value, expect=version)
        except web.GONE:
            return None
        if answer.status == 412:
            return 0
        if answer.status >= 500:
            return None
        assert answer.status in (200, 204), answer
        return answer.version


class ByWorker(Client):
    """mu_config_put(), through an agent."""
    WAIT_MS = 5000

    def __init__(self, name, puppet):
        super().__init__(name)
        self.puppet = puppet

    def get(self):
        answer = self.puppet.ask(f'get {KEY} {self.WAIT_MS}')
        word, *rest = answer.split(' ', 2)
        if word == 'ok':
            return rest[1], int(rest[0])
        assert rest[0] in ('-13', '-14'), answer
        return None

    def put(self, value, version):
        answer = self.puppet.ask(f'put {KEY} {version} {self.WAIT_MS} {value}')
        word, number, *_ = answer.split(' ', 2)
        if word == 'ok':
            return int(number)
        assert number in ('-10', '-13', '-14'), answer
        return 0 if number == '-10' else None


class ByCommand(Client):
    def __init__(self, name, orchestrator, job):
        super().__init__(name)
        self.orchestrator = orchestrator
        self.job = job

    def get(self):
        code, out, _ = self.orchestrator.ask('config', 'get', KEY, '--job', self.job, '--json')
        if code != 0:
            return None
        found = kit.json.loads(out)
        return found['value'], found['version']

    def put(self, value, version):
        code, out, err = self.orchestrator.ask('config', 'put', KEY, value, '--job', self.job,
                                               '--if-version', str(version), '--json')
        if code == 0:
            return kit.json.loads(out)['version']
        return 0 if 'meanwhile' in err else None


def kill_again_and_again(orchestrator, clients, prng, unanswered):
    """unanswered: until at least one update was made of which nobody was told."""
    def acked_n():
        assert not any(c.error for c in clients), [c.error for c in clients]
        return sum(len(c.acked) for c in clients)

    for n in range(KILLS_MAX):
        if n >= KILLS_N and (not unanswered or any(c.resolved_n for c in clients)):
            break
        want = acked_n() + UPDATES_N
        kit.wait_until(lambda want=want: acked_n() >= want, 'there were more updates')
        time.sleep(prng.random() * 0.05)
        orchestrator.restart()
    want = acked_n() + UPDATES_N
    kit.wait_until(lambda: acked_n() >= want, 'there were updates after the last kill')
    for client in clients:  # Those who have won go first, so that the others do too.
        if client.acked:
            client.stop.set()
    kit.wait_until(lambda: acked_n() and all(c.acked for c in clients), 'everyone had won')


def check(clients, value, version):
    tokens = value.split()
    assert len(tokens) == len(set(tokens)), 'an update was made twice'
    known = [token for c in clients for token in c.tokens]
    assert set(known) <= set(tokens), f'lost: {sorted(set(known) - set(tokens))}'
    assert set(tokens) == set(known), f'nobody knows of {sorted(set(tokens) - set(known))}'
    # Each update made one version, and each version held what the final value begins with.
    acked = sorted((v, text) for c in clients for v, text in c.acked)
    assert len({v for v, _ in acked}) == len(acked), 'two updates got one version'
    assert acked[-1][0] <= version
    for v, text in acked:
        assert value == text or value.startswith(text + ' '), f'version {v} was lost'
    for c in clients:
        seen = [v for v, _ in c.read]
        assert seen == sorted(seen), f'{c.name} saw versions go back: {seen}'
        assert all(value.startswith(text) for _, text in c.read), c.name
    by_version = {}
    for v, text in acked + [one for c in clients for one in c.read]:
        assert by_version.setdefault(v, text) == text, f'version {v} was two values'


def make_clients(orchestrator, job, puppets):
    return ([ByHttp(f'h{i}', orchestrator.web, job) for i in range(7)] +
            [ByWorker(f'w{i}', p) for i, p in enumerate(puppets)] +
            [ByCommand(f'c{i}', orchestrator, job) for i in range(4)])


def sixteen_clients(unanswered=False, **env):
    """How many updates were known from reading only."""
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE, **env), puppets, 'inprocess', nnodes='5')
        orchestrator, job = stage.orchestrator, stage.job.name
        workers = stage.workers('a', 'b', 'c', 'd', 'e')
        generation = workers[0].world()['generation']
        orchestrator.web.put(job, KEY, 'begin.0', expect=0)
        clients = make_clients(orchestrator, job, workers)
        assert len(clients) == 16
        run_all(orchestrator, clients, unanswered)
        value, version = orchestrator.web.value(job, KEY)
        begin = Client('begin')
        begin.tokens.append('begin.0')
        check([*clients, begin], value, version)
        assert len(value) < ROOM
        resolved_n = sum(c.resolved_n for c in clients)
        print(f'# {len(value.split())} updates, {resolved_n} of them known from reading only; '
              f'{({c.name: len(c.tokens) for c in clients})}', flush=True)
        # Nobody lost its place over it.
        assert stage.puppets.one('a').world()['generation'] == generation
        stage.leave(workers)
        return resolved_n


def run_all(orchestrator, clients, unanswered):
    """All at once, until there were enough kills."""
    threads = [threading.Thread(target=c.run) for c in clients]
    for thread in threads:
        thread.start()
    try:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f'# seed {seed}', flush=True)
        kill_again_and_again(orchestrator, clients, random.Random(seed), unanswered)
    finally:
        for client in clients:
            client.stop.set()
        for thread in threads:
            thread.join()
    assert not any(c.error for c in clients), [c.error for c in clients]


def test_16_clients_lose_no_update_while_the_orchestrator_is_killed_again_and_again():
    sixteen_clients()


def test_nor_on_a_slow_disk_where_kills_leave_some_unanswered():
    slow = os.path.join(os.environ.get('E2E_PROGRAMS', ''), 'libslowsync.so')
    with tempfile.NamedTemporaryFile('w', encoding='ascii') as file:
        file.write(str(SLOW_MS))
        file.flush()
        assert sixteen_clients(True, LD_PRELOAD=slow, SLOWSYNC_FILE=file.name) > 0


if __name__ == '__main__':
    kit.run(__name__, jobs=2)
