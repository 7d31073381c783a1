"""A seeded schedule of what may happen to a job: workers and agents killed, nodes joining and drained,
workers stopped, the orchestrator killed. The same seed draws the same schedule (what each event meets
is up to the machine). Only one thing never happens: that all who hold the state are lost at once.

No step is done before it is allowed: so the job is never over before all has happened, however slow this is."""
import os
import random
import re
import signal
import threading
import time

import elastic
import kit

WEIGHTS = {'kill worker': 4, 'kill agent': 3, 'join': 4, 'drain': 2, 'stop': 2, 'stop long': 2, 'orchestrator': 2}


class Churn:
    weights = WEIGHTS

    def __init__(self, job, seed, events_n=11, nodes=3, nodes_max=5):
        self.job = job
        self.seed = seed
        self.chance = random.Random(seed)
        self.events_n = events_n
        self.names = [f'n{i}' for i in range(nodes)]
        self.nodes_max = nodes_max
        self.next_name = nodes
        self.harmed = set()  # nodes that may not hold the state
        self.done = []
        self.helpers = []
        self.allowed = 0  # no step after that
        self.share = 0  # steps for each event

    def allow(self, step):
        self.allowed = max(self.allowed, step)
        self.job.limit(self.allowed)

    def far(self):
        """How far it has come. The examples don't say, and obey no limit: then it is what the orchestrator knows."""
        return self.job.last() or self.job.step()

    def trickle(self):
        """Another step, if all that may be done are: a change that is planned comes at the end of one."""
        if self.far() >= self.allowed:
            self.allow(self.allowed + 1)

    # ---- what is known ----

    def status(self):
        return kit.wait_until(self.job.job.status, 'the orchestrator answered')

    def settled(self, bound_s=30):
        """Waits until all members of the newest generation are in it; their nodes."""
        def look():
            status = self.status()
            if status['state'] in ('done', 'failed'):
                raise AssertionError(f'it is {status["state"]}: {status}')
            if status['members'] and status['active'] == status['generation']:
                return {m['node'] for m in status['members']}
            self.trickle()
            return None
        return kit.wait_until(look, 'a generation was active', bound_s)

    def pid(self, node):
        """Of its newest worker."""
        found = re.findall(r'\(node \S+, slot \d+\), pid ([1-9]\d*)', self.job.nodes[node].log())
        return int(found[-1]) if found else 0

    def victim(self):
        """A node with the state of which another one is left; None if there is none."""
        holders = self.settled() - self.harmed
        if len(holders) < 2:
            return None
        return self.chance.choice(sorted(holders))

    def alive(self):
        return [name for name in self.names if not self.job.nodes[name].ended()]

    # ---- what may happen ----

    def do(self, event):
        """True: it did."""
        return {'kill worker': self.kill_worker, 'kill agent': self.kill_agent, 'join': self.join,
                'drain': self.drain, 'stop': lambda: self.stop(0.1),
                'stop long': lambda: self.stop(kit.LEASE_S + 0.8), 'orchestrator': self.orchestrator}[event]()

    def kill_worker(self):
        name = self.victim()
        pid = self.pid(name) if name else 0
        if not pid or not kit.lives(pid):
            return False
        os.kill(pid, signal.SIGKILL)  # Its agent starts another one, a newcomer.
        self.note(name)
        return True

    def kill_agent(self):
        name = self.victim()
        if name is None or len(self.alive()) < 3:
            return False
        self.job.nodes[name].kill9()
        self.names.remove(name)
        self.note(name)
        return True

    def join(self):
        if len(self.alive()) >= self.nodes_max + 1:  # One more than max: it waits.
            return False
        name = f'n{self.next_name}'
        self.next_name += 1
        self.job.start(name)
        self.names.append(name)
        self.note(name, harm=False)
        return True

    def drain(self):
        name = self.victim()
        if name is None or len(self.alive()) < 3:
            return False
        self.job.orchestrator.say('drain', name)
        self.names.remove(name)
        self.note(name)
        return True

    def stop(self, wait_s):
        name = self.victim()
        pid = self.pid(name) if name else 0
        if not pid or not kit.lives(pid):
            return False
        os.kill(pid, signal.SIGSTOP)

        def wake():
            time.sleep(wait_s)
            if kit.lives(pid):
                os.kill(pid, signal.SIGCONT)
        self.note(name, text=f'{wait_s} s')
        self.helpers.append(threading.Thread(target=wake))
        self.helpers[-1].start()
        return True

    def orchestrator(self):
        wait_s = self.chance.choice((0, 0.2, 1))
        self.job.orchestrator.kill9()
        time.sleep(wait_s)
        self.job.orchestrator.start()
        self.note('', harm=False, text=f'{wait_s} s')
        return True

    def note(self, name, harm=True, text=''):
        if harm:
            self.harmed.add(name)
        self.done.append((self.event, name, text))

    # ---- all of it ----

    def calm_down(self):
        """Until everyone who was harmed is gone, or is a member again in a generation after that."""
        for helper in self.helpers:
            helper.join()
        self.helpers = []
        before = self.far()
        kit.wait_until(lambda: self.trickle() or (self.far() > before + 2 and self.settled()), 'it went on')
        self.harmed &= set(self.names)
        members = self.settled()
        self.harmed -= {name for name in members if kit.lives(self.pid(name))}

    def one(self):
        for _ in range(100):
            self.event = self.chance.choices([*self.weights], [*self.weights.values()])[0]
            if self.do(self.event):
                return
            if not self.settled() - self.harmed - {''} or len(self.settled() - self.harmed) < 2:
                self.event = 'join'
                self.calm_down()
                if len(self.alive()) < 3:
                    self.do('join')
                    return
        raise AssertionError('nothing can happen any more')

    def run(self, steps):
        """Events, a few steps apart or none; then to the end."""
        self.job.start_all(*self.names)
        self.settled()
        share = self.share = steps // (self.events_n + 2)
        for i in range(self.events_n):
            self.allow((i + 1) * share)
            at = i * share + self.chance.randrange(share) if self.chance.random() < 0.7 else 0
            kit.wait_until(lambda at=at: self.far() >= at, f'step {at} was done')
            self.one()
            if self.chance.random() < 0.4:
                self.allow((i + 2) * share)
                self.calm_down()
        for helper in self.helpers:
            helper.join()
        assert len(self.done) >= min(self.events_n, 10), self.done
        self.job.limit(elastic.NO_LIMIT)
