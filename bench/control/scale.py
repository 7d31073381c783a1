"""Many agents over real TLS connections: how fast they come in, and what it costs to keep them."""
import json
import os
import subprocess
import time

from control.measure import load
from control.process import Failed, Serve, end


class Swarm:
    """Swarm processes that share the nodes of one run."""

    def __init__(self, program, serve, nodes, per_job, processes=1, at_a_time=0, renew_ms=2000):
        self.parts = []
        self.nodes = nodes
        for i in range(processes):
            first, last = nodes * i // processes, nodes * (i + 1) // processes
            self.parts.append(subprocess.Popen(
                [program, serve.endpoint, serve.token, 'job', str(first), str(last - first),
                 str(per_job), str(at_a_time), str(renew_ms)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))
        self.hear()

    def say(self, command):
        for part in self.parts:
            part.stdin.write(command + '\n')

    def hear(self):
        lines = [part.stdout.readline() for part in self.parts]
        if not all(lines):
            raise Failed('a swarm ended')
        return [json.loads(line) for line in lines]

    def admit(self):
        """Seconds until all are welcomed, and until all are in active generations."""
        self.say('go')
        parts = self.hear()
        begin_ns = min(part['begin_ns'] for part in parts)
        return {'welcomed_s': (max(p['welcomed_ns'] for p in parts) - begin_ns) / 1e9,
                'active_s': (max(p['active_ns'] for p in parts) - begin_ns) / 1e9,
                'cpu_s': sum(p['cpu_s'] for p in parts), 'closed': sum(p['closed'] for p in parts)}

    def count(self):
        self.say('count')
        parts = self.hear()
        rtt = {}
        for part in parts:
            for us, n in part['rtt_us'].items():
                rtt[int(us)] = rtt.get(int(us), 0) + n
        total = {key: sum(part[key] for part in parts)
                 for key in ('cpu_s', 'renewals', 'acks', 'generations', 'closed', 'refused')}
        return {**total, 'rtt_us': rtt}

    def close(self):
        for part in self.parts:
            part.stdin.close()
        codes = []
        for part in self.parts:
            try:
                part.wait(20)
            except subprocess.TimeoutExpired:
                pass
            codes.append(end(part))
            part.stdout.close()
        if any(codes):
            raise Failed(f'swarms ended with status {codes}')


def quantile_ms(rtt, part):
    """Of a histogram."""
    left = part * sum(rtt.values())
    for us in sorted(rtt):
        left -= rtt[us]
        if left <= 0:
            return us / 1000
    return 0.0


class Watch:
    """What the server and the swarm did in some seconds."""

    def __init__(self, serve, swarm, seconds):
        swarm_cpu_s = swarm.count()['cpu_s']
        cpu_s, begin_s = serve.cpu_s(), time.monotonic()
        time.sleep(seconds)
        self.seconds = time.monotonic() - begin_s
        self.server_s = serve.cpu_s() - cpu_s
        self.seen = swarm.count()
        self.server = 100 * self.server_s / self.seconds
        self.swarm = 100 * (self.seen['cpu_s'] - swarm_cpu_s) / self.seconds
        if self.seen['closed'] or self.seen['refused']:
            raise Failed(f'{self.seen["closed"]} connections closed, {self.seen["refused"]} '
                         f'hellos refused while nothing happened')


class Scale:
    def __init__(self, report, programs, folder):
        self.report = report
        self.programs = programs
        self.folder = folder
        self.runs_n = 0

    def serve(self):
        self.runs_n += 1
        return Serve(self.programs['muster'], os.path.join(self.folder, f'scale-{self.runs_n}'),
                     '--jobs-max', '128')

    def admit(self, nodes, per_job, processes=1, then=None):
        """One admission by a fresh orchestrator; then(serve, swarm) while they are there."""
        serve = self.serve()
        rss = serve.rss()
        swarm = Swarm(self.programs['swarm'], serve, nodes, per_job, processes)
        try:
            cpu_s = serve.cpu_s()
            found = swarm.admit()
            found['server_cpu_s'] = serve.cpu_s() - cpu_s
            found['load'] = load()
            if then is not None:
                then(serve, swarm)
            found['rss'] = (serve.rss() - rss) / nodes / 1024
            return found
        finally:
            swarm.close()
            serve.close()

    def tell_admission(self, what, runs, goal=None):
        more = {'goal': goal} if goal else {}
        self.report.add_all(f'{what}: all in active generations', [r['active_s'] for r in runs],
                            's', load=max(r['load'] for r in runs),
                            closed=sum(r['closed'] for r in runs), **more)
        self.report.add_all(f'{what}: all welcomed', [r['welcomed_s'] for r in runs], 's')
        self.report.add_all(f'{what}: server cpu to admit', [r['server_cpu_s'] for r in runs], 's')
        self.report.add_all(f'{what}: swarm cpu to admit', [r['cpu_s'] for r in runs], 's')
        self.report.add_all(f'{what}: memory each', [r['rss'] for r in runs], 'KiB', goal=64)

    def hold(self, seconds, watches):
        """Renewals and nothing else, for a while; what was seen is added to `watches`."""
        def then(serve, swarm):
            time.sleep(2)  # What admission left behind settles.
            watches.append(Watch(serve, swarm, seconds))
        return then

    def tell_hold(self, what, watches, cpu_goal=None, p99_goal=None):
        def goal(most):
            return {} if most is None else {'goal': most}

        rtts = [w.seen['rtt_us'] for w in watches]
        self.report.add_all(f'{what} held: server', [w.server for w in watches], '% of a core',
                            load=load(), seconds=round(watches[0].seconds, 1), **goal(cpu_goal))
        self.report.add_all(f'{what} held: swarm', [w.swarm for w in watches], '% of a core')
        self.report.add_all(f'{what} held: renewals',
                            [w.seen['acks'] / w.seconds for w in watches], '/s')
        self.report.add_all(f'{what} held: renewal, median',
                            [quantile_ms(rtt, 0.5) for rtt in rtts], 'ms')
        self.report.add_all(f'{what} held: renewal, p99',
                            [quantile_ms(rtt, 0.99) for rtt in rtts], 'ms',
                            renewals=sum(sum(rtt.values()) for rtt in rtts),
                            longest=max(max(rtt, default=0) for rtt in rtts) / 1000,
                            load=load(), **goal(p99_goal))

    def saturate(self, what, depths, seconds, times):
        def then(serve, swarm):
            time.sleep(1)
            for depth in depths:
                watches = []
                swarm.say(f'depth {depth}')
                time.sleep(0.5)
                for _ in range(times):
                    watches.append(Watch(serve, swarm, seconds))
                swarm.say('depth 0')
                time.sleep(0.5)
                name = f'{what} saturated, {depth} in flight each'
                self.report.add_all(f'{name}: renewals',
                                    [w.seen['acks'] / w.seconds for w in watches], '/s',
                                    load=load())
                self.report.add_all(f'{name}: server', [w.server for w in watches], '% of a core')
                self.report.add_all(f'{name}: swarm', [w.swarm for w in watches], '% of a core')
                self.report.add_all(f'{name}: renewals by server cpu',
                                    [w.seen['acks'] / max(w.server_s, 0.01) for w in watches],
                                    '/cpu s')
        return then


def run(report, programs, folder):
    scale = Scale(report, programs, folder)
    for what, per_job, times in (('1,000 nodes, 10 jobs', 100, 5), ('1,000 nodes, 1 job', 1000, 3)):
        watches = []
        runs = [scale.admit(1000, per_job) for _ in range(times - 1)]
        runs.append(scale.admit(1000, per_job, then=scale.hold(20, watches)))
        scale.tell_admission(what, runs, goal=2)
        scale.tell_hold(what, watches, cpu_goal=5)
    many, watches = '10,000 nodes, 100 jobs', []
    runs = [scale.admit(10000, 100, 2, scale.hold(7, watches)) for _ in range(3)]
    scale.tell_admission(many, runs)
    scale.tell_hold(many, watches, p99_goal=50)
    scale.admit(1000, 100, then=scale.saturate('1,000 nodes, 10 jobs', (1, 8), 1, 5))


def quick(report, programs, folder):
    scale = Scale(report, programs, folder)
    few, watches = '100 nodes, 4 jobs', []

    def then(serve, swarm):
        scale.hold(2, watches)(serve, swarm)
        scale.saturate(few, (4,), 0.5, 2)(serve, swarm)

    scale.tell_admission(few, [scale.admit(100, 25, 2, then)])
    scale.tell_hold(few, watches)
