"""A seeded schedule like churn.py's, on hosts of their own (hosts.py): links are reset, pairs of hosts are cut for a
while or for good, the journal's disk is full for a while, and all that churn.py knows.

And how long nothing was committed (stalls()): each worker says when it saw a step committed; the first that did
counts. A time in which no step was allowed is no stall. What happened since the last commit divides a stall: each
part of it has its bound, which is the longest time that muster may need after the last fault.
"""
import bisect
import collections
import contextlib
import os
import re
import threading
import time

import churn
import hosts
import kit
import mounts

BOUND_S = 120  # Against hanging only: longer than any bound of a stall.
SLACK_S = 2
CALM_S = kit.LEASE_S + SLACK_S
CUT_S = hosts.SILENCE_S + CALM_S
BEAT_S = 0.02
TAIL_BYTES = 4096
STAMP = re.compile(r'step=(\d+) generation=\d+ rank=\d+ world=\d+ samples=\d+ us=(\d+)\n')
HEAL_S = (0.3, 1, 3)
AWAY_S = (0, 0.5, 1, kit.LEASE_S + 1.5)


class Training(hosts.Training):
    """Remembers when steps were allowed."""

    def limit(self, step):
        super().limit(step)
        self.__dict__.setdefault('allowed', []).append((step, time.monotonic()))

    def allowed_at(self, step):
        return self.allowed[bisect.bisect_left(self.allowed, (step,))][1]

    def last(self, *names):
        """By the end of what each has said: all of it is long."""
        found = [0]
        for name in names or self.nodes:
            with open(self.nodes[name].path + '.out', 'rb') as file:
                file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
                found += [int(step) for step, _ in STAMP.findall(file.read().decode())]
        return max(found)

    def commits(self):
        """When each step was first seen committed, by time.monotonic()."""
        found = {}
        for step, us in STAMP.findall(self.out()):
            found[int(step)] = min(found.get(int(step), float('inf')), int(us) / 1e6)
        return found


class Metronome(threading.Thread):
    """How late this machine is: what it does not do for us, nobody is to blame for."""

    def __init__(self):
        super().__init__(daemon=True)
        self.late = []  # (when, by how much)
        self.over = threading.Event()

    def run(self):
        at = time.monotonic()
        while not self.over.wait(BEAT_S):
            now = time.monotonic()
            if now - at > 2 * BEAT_S:
                self.late.append((now, now - at - BEAT_S))
            at = now

    def lateness(self, begin, end):
        return sum(late for when, late in self.late if begin <= when <= end + late)


class Chaos(churn.Churn):
    weights = {**churn.WEIGHTS, 'reset': 5, 'reset all': 2, 'reset agent': 2, 'cut': 2, 'cut one way': 1, 'sever': 3,
               'full disk': 3}

    def __init__(self, job, seed, disk, silent=False, **more):
        """silent: some cuts last longer than the link's silence limit."""
        super().__init__(job, seed, **more)
        self.disk = disk
        self.silent = silent
        self.heal_s = (*HEAL_S, hosts.SILENCE_S - 4, hosts.SILENCE_S + 6) if silent else HEAL_S
        self.for_good = []  # pairs that stay cut
        self.for_good_max = 3 if silent else 1
        self.spans = []  # [kind, begin, end or None]: the orchestrator was away, or a pair cut
        self.times = []  # when anything happened
        self.metronome = Metronome()
        self.metronome.start()

    def do(self, event):
        self.times.append(time.monotonic())
        does = {'reset': self.reset, 'reset all': self.reset_all, 'reset agent': self.reset_agent,
                'cut': lambda: self.cut(self.job.world.cut), 'sever': lambda: self.cut(self.job.world.sever),
                'cut one way': lambda: self.cut(lambda a, b: self.job.world.cut(a, b, one_way=True)),
                'full disk': self.full_disk}.get(event)
        return does() if does else super().do(event)

    def settled(self, bound_s=BOUND_S):
        return super().settled(bound_s)

    @contextlib.contextmanager
    def span(self, kind):
        one = [kind, time.monotonic(), None]
        self.spans.append(one)
        yield
        one[2] = time.monotonic()
        self.times.append(one[2])

    # ---- what may happen ----

    def reset(self):
        """A host's links; nobody is lost by that, but if one is, then it is this one."""
        name = self.victim()
        if name is None:
            return False
        self.note(name, text=f'{self.job.world.reset(name)} links')
        return True

    def reset_all(self):
        members = self.settled()
        if self.harmed & members or len(members) < 2:
            return False
        self.note('', harm=False, text=f'{self.job.world.reset(*sorted(members))} links')
        self.calm_down()
        return True

    def reset_agent(self):
        name = self.victim()
        if name is None:
            return False
        self.note(name, text=f'{self.job.world.reset(name, agents=True)} links')
        return True

    def cut(self, how):
        """Two members, so that a third has the state whichever of them goes."""
        holders = sorted(self.settled() - self.harmed)
        if len(holders) < 3:
            return False
        a, b = self.chance.sample(holders, 2)
        for_good = (len(self.for_good) < self.for_good_max and (self.silent or how == self.job.world.sever) and
                    self.chance.random() < 0.4 and not {a, b} & {name for pair in self.for_good for name in pair})
        heal_s = self.chance.choice(self.heal_s)
        self.harmed |= {a, b}
        self.note(a, text=f'from {b} for {"good" if for_good else f"{heal_s} s"}')
        if for_good:  # Within its bound one of the two is gone.
            self.for_good.append((a, b))
            self.spans.append(['cut', time.monotonic(), time.monotonic() + CUT_S])
            how(a, b)
            return True

        def cut():
            with self.span('cut'):
                how(a, b)
                is_cut.set()
                time.sleep(heal_s)
                self.job.world.heal(a, b)
        is_cut = threading.Event()
        self.helpers.append(threading.Thread(target=cut))
        self.helpers[-1].start()
        is_cut.wait()
        return True

    def orchestrator(self):
        away_s = self.chance.choice(AWAY_S)
        with self.span('away'):
            self.job.orchestrator.kill9()
            self.meanwhile(away_s)
            self.job.orchestrator.start()
        return True

    def full_disk(self):
        away_s = self.chance.choice(AWAY_S)
        with self.span('away'):
            mounts.fill(self.disk)
            self.meanwhile(away_s)
            mounts.make_room(self.disk)
        return True

    def meanwhile(self, away_s):
        """Links may be reset while nobody can be told."""
        members = sorted(set(self.alive()) - self.harmed)
        name = self.chance.choice(members) if members and self.chance.random() < 0.5 else ''
        self.note(name, harm=bool(name), text=f'{away_s} s')
        self.train_on(away_s / 2)
        if name:
            self.job.world.reset(name)
        self.train_on(away_s / 2)

    def train_on(self, wait_s):
        """Steps go on meanwhile, but not so many that none are left for what is yet to happen."""
        until, last = time.monotonic() + wait_s, (len(self.done) + 2) * self.share
        while time.monotonic() < until:
            if self.allowed < last:
                self.trickle()
            time.sleep(BEAT_S)

    def calm_down(self):
        super().calm_down()
        members = self.settled()
        for pair in self.for_good:  # One of them has to go, and it is not known which before it has.
            self.harmed |= set(pair) & set(self.names) if set(pair) <= members else set()


# ---- how long nothing was committed ----

Stall = collections.namedtuple('Stall', 'kind took_s bound_s step')


def _overlaps(spans, kind, begin, end):
    return any(one == kind and since < end and (until is None or until > begin) for one, since, until in spans)


def stalls(job, run):
    """All of them: how long each took, beyond what the machine was late, and how long it may."""
    at = job.commits()
    found = []
    for step in sorted(at)[1:]:
        begin, end = max(at[step - 1], job.allowed_at(step)), at[step]
        cut = _overlaps(run.spans, 'cut', begin, end)
        points = [begin, *sorted(t for t in run.times if begin < t < end), end]
        for since, until in zip(points, points[1:]):
            away = _overlaps(run.spans, 'away', since, until)
            kind = 'away' if away else 'cut' if cut else 'calm'
            bound_s = {'away': float('inf'), 'cut': CUT_S, 'calm': CALM_S}[kind]
            found.append(Stall(kind, until - since - run.metronome.lateness(since, until), bound_s, step))
    return found


def longest(found):
    """By kind."""
    return {kind: max((one for one in found if one.kind == kind), key=lambda one: one.took_s)
            for kind in sorted({one.kind for one in found})}
