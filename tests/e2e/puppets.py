"""Workers that do what a test tells them: the test's side of programs/puppet.c."""
import os
import select
import socket
import threading

import kit

PROGRAM = os.path.join(os.environ.get('E2E_PROGRAMS', '.'), 'puppet')
STATUSES = {'invalid': -2, 'limit': -6, 'exists': -7, 'none': -8, 'stale': -9, 'conflict': -10,
            'again': -13, 'timedout': -14, 'peer': -15, 'done': -17}


class Puppet:
    """One process."""

    def __init__(self, connection):
        self.connection = connection
        self.file = connection.makefile('rw', encoding='utf-8')
        connection.settimeout(kit.LONG_S)
        self.node, slot, pid, self.rank, self.generation = self.file.readline().split()
        self.slot = int(slot)
        self.pid = int(pid)
        self.joined = False

    def tell(self, order):
        self.file.write(order + '\n')
        self.file.flush()

    def answer(self):
        """What it says to the oldest order that it has not answered; '' if it has ended."""
        return self.file.readline().rstrip('\n')

    def is_silent(self):
        """Whether it has answered nothing yet, if all of its answers so far have been read."""
        return select.select([self.connection], [], [], 0)[0] == []

    def ask(self, order):
        self.tell(order)
        return self.answer()

    def do(self, order):
        """Orders it, and it must go well; the words of the answer."""
        answer = self.ask(order)
        assert answer.startswith('ok'), f'{self.node}: {order}: {answer!r}'
        return answer.split()[1:]

    def fails(self, order, status):
        """Orders it, and it must fail so; the text."""
        answer = self.ask(order)
        assert answer.startswith(f'error {STATUSES[status]} '), f'{self.node}: {order}: {answer!r}'
        return answer.split(' ', 2)[2]

    def join(self):
        if not self.joined:
            self.do('join')
            self.joined = True

    def world(self):
        words = self.do('world')
        names = ('generation', 'rank', 'size', 'local_rank', 'local_size', 'ended', 'failed')
        return {**dict(zip(names, map(int, words))), 'job': words[7], 'node': words[8],
                'addresses': words[9:]}


def together(found):
    """These workers by rank, once they and nobody else are in one generation."""
    def look():
        worlds = [one.world() for one in found]
        one_generation = {(w['generation'], w['size']) for w in worlds} == {(worlds[0]['generation'], len(found))}
        return {w['rank']: one for w, one in zip(worlds, found)} if one_generation else None

    by_rank = kit.wait_until(look, f'all of {[one.node for one in found]} were in one generation')
    return [by_rank[rank] for rank in range(len(found))]


class Puppets:
    """Where those of a world report; give `path` to the nodes as E2E_PUPPETS."""

    def __init__(self, world):
        self.path = os.path.join(world.dir, 'puppets')
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.all = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                self.all.append(Puppet(self.listener.accept()[0]))
            except (OSError, ValueError):  # Closed; or it was killed before it said who it is.
                if self.listener.fileno() < 0:
                    return

    def of(self, node, slot=0):
        return [p for p in self.all if (p.node, p.slot) == (node, slot)]

    def one(self, node, slot=0):
        """Waits for the first of this node; it must be the only one that there ever was."""
        kit.wait_until(lambda: self.of(node, slot), f'node {node} had a worker')
        found = self.of(node, slot)
        assert len(found) == 1, f'node {node} has started its worker {len(found)} times'
        return found[0]

    def ordered(self, *nodes, generation=0):
        """The workers of these nodes once all have joined and are in a generation after that."""
        found = [self.one(node) for node in nodes]
        for one in found:
            one.join()
        for one in found:
            one.do(f'wait {generation} {kit.LONG_S * 1000}')
        return together(found)


class Stage:
    """Nodes of one job whose workers are puppets."""

    def __init__(self, orchestrator, puppets, mode, nnodes='1:4'):
        self.orchestrator = orchestrator
        self.job = orchestrator.job(nnodes=nnodes, mode=mode)
        self.puppets = puppets
        self.nodes = {}

    def start(self, *names, flags=()):
        for name in names:
            self.nodes[name] = self.job.node(name, *flags, script=PROGRAM,
                                             E2E_PUPPETS=self.puppets.path)
            self.nodes[name].wait_log('in job ')

    def workers(self, *names):
        """Of these nodes, which it starts; by rank."""
        self.start(*names)
        return self.puppets.ordered(*names)

    def leave(self, found):
        """The workers end as finished ones do, and with them the job."""
        for one in found:
            one.do('leave')
        for one in found:
            one.tell('exit 0')
        codes = {name: node.wait() for name, node in self.nodes.items()}
        assert set(codes.values()) == {0}, codes
