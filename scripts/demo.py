#!/usr/bin/env python3
"""The demo: Fashion-MNIST on three nodes on this machine, and what can happen to them.

One is killed, one added, one drained; the orchestrator is killed and started again. Then the same
training by one worker that nobody disturbs. Fails unless both end with the same bits, each sample
has counted once, and nobody was restarted.

usage: demo.py BUILD
"""
import glob
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tests', 'e2e'))
import audit  # noqa: E402  (it lies beside the tests)
import stage  # noqa: E402

SAMPLES, BATCH, SLICES, EPOCHS = 60000, 256, 8, 3
STEPS = -(-SAMPLES // BATCH) * EPOCHS
MODEL = ['--hidden', '128', '--epochs', str(EPOCHS), '--global-batch', str(BATCH),
         '--slices', str(SLICES)]
SLEEP_MS = 10  # For each slice, so that there is time to watch.
DULL = re.compile(r'^\[s?\d+\] \S+Z |is warm|is active|connection closed|has finished|pid \d+ goes on|'
                  r'warming up|is in-process|^\[s?\d+\] digest=')
RESULT = re.compile(r'digest=(\w{64}) steps=(\d+) samples=(\d+) accuracy=([\d.]+)')


class Demo(stage.Stage):
    """A stage on which nodes train, and what is to be remembered of them."""

    def __init__(self, build):
        super().__init__(os.path.join(build, 'muster'))
        self.mnist = os.path.join(build, 'examples', 'mnist')
        self.audit = os.path.join(self.folder, 'audit')
        self.reports = os.path.join(self.folder, 'reports')
        os.mkdir(self.audit)
        os.mkdir(self.reports)
        self.env['OPENBLAS_NUM_THREADS'] = '1'
        self.world = 0
        self.events = []  # (what, the step at which it was done)
        self.results = {}

    def event(self, what, text):
        self.events.append((what, self.step))
        self.tell(text)

    def heard(self, who, line):
        found = re.search(r'\bstep (\d+)/\d+ .* (\d+) workers?,', line)
        if found and who != 'alone':
            self.step, self.world = int(found.group(1)), int(found.group(2))
        found = RESULT.search(line)
        if found:
            self.results[who] = found.groups()
        return who != 'alone' and not DULL.search(line)

    def node(self, name):
        return self.start(name, self.muster, 'run', '--nnodes=1:4',
                          f'--rdzv_endpoint={self.endpoint}', '--node-name', name, self.mnist,
                          *MODEL, '--sleep-ms', str(SLEEP_MS), '--report', self.reports,
                          env=dict(self.env, MUSTER_AUDIT=self.audit))

    def wait_world(self, size):
        self.wait_for(lambda: self.world == size, f'{size} workers to be in a step')


def disturbed(demo):
    demo.tell('An orchestrator. It keeps a journal, and is needed only to change who takes part.')
    demo.serve()
    demo.tell(f'Three nodes train on Fashion-MNIST: {STEPS} steps, {SLICES} slices each.')
    for name in 'abc':
        demo.node(name)
    demo.wait_world(3)
    demo.wait_step(STEPS // 8)
    demo.event('a is killed', 'kill -9 of node a. The others do its slices, too.')
    demo.kill('a')
    demo.wait_world(2)
    demo.wait_step(STEPS * 2 // 8)
    demo.event('d comes', 'Node d comes: it warms up beside them, and is given the state.')
    demo.node('d')
    demo.wait_world(3)
    demo.wait_step(STEPS * 4 // 8)
    demo.event('b is drained', 'Node b is drained: it leaves at the end of a step.')
    done = demo.ask('drain', 'b')
    if done.returncode != 0:
        raise stage.Failed(f'muster drain: {done.stdout.strip()}')
    demo.wait_end('b')
    demo.wait_step(STEPS * 5 // 8)
    demo.event('the orchestrator dies', 'kill -9 of the orchestrator. Nobody notices.')
    demo.kill('orchestrator')
    demo.wait_step(STEPS * 6 // 8)
    demo.event('… and is back', 'It is started again, reads its journal, and knows everyone.')
    demo.serve()
    for name in 'cd':
        demo.wait_end(name)
    demo.tell('What the orchestrator says of the job now:')
    print(demo.ask('status').stdout, end='', flush=True)


def undisturbed(demo):
    demo.tell('The same training by one worker, without muster run: nothing happens to it.')
    demo.start('alone', demo.mnist, *MODEL)
    demo.wait_end('alone')


def pauses(demo, reports):
    """For each event: the longest pause that node c had for it, which was there all the time."""
    changes = reports['c']['changes']
    found = []
    for i, (what, step) in enumerate(demo.events):
        end = demo.events[i + 1][1] if i + 1 < len(demo.events) else STEPS + 1
        mine = [c['pause_us'] for c in changes if step < c['step'] <= end]
        found.append((what, max(mine) / 1000 if mine else None))
    return found


def read_reports(demo):
    reports = {}
    for path in glob.glob(os.path.join(demo.reports, '*.json')):
        with open(path, encoding='utf-8') as file:
            report = json.load(file)
        reports[report['node']] = report
    if sorted(reports) != ['b', 'c', 'd']:
        raise stage.Failed(f'reports came from {sorted(reports)}, not from b, c and d')
    return reports


def compare(demo):
    """Both ends side by side. Everything is shown before anything is complained of."""
    reports = read_reports(demo)
    found = audit.check(audit.read(demo.audit), audit.Walk(SAMPLES, BATCH, SLICES), STEPS)
    faults = list(found.faults)
    ends = [(f'disturbed, node {who}', demo.results.get(who)) for who in 'cd']
    ends.append(('one worker, undisturbed', demo.results.get('alone')))
    print()
    for what, result in ends:
        if result is None:
            faults.append(f'{what}: there is no digest')
        else:
            print(f'  {what:<24} {result[0]}  accuracy {float(result[3]):.2%}')
    if len({result for _, result in ends}) != 1:
        faults.append('the digests are not the same')
    elif not faults:
        print(f'  {"":<24} the same bits')
    restarted = len(os.listdir(demo.audit)) - len('abcd')  # Each process has a log of its own.
    if restarted:
        faults.append(f'{restarted} processes were started beside those of a, b, c and d')
    print(f'\n  steps {found.steps}, samples {SAMPLES * EPOCHS:,}: lost {found.lost}, '
          f'repeated {found.repeated}; processes restarted: {restarted}; slices computed again: '
          f'{sum(r["slices_again"] for r in reports.values())}')
    print('  pauses: ' + ', '.join(f'{what} {"none" if ms is None else f"{ms:.1f} ms"}'
                                   for what, ms in pauses(demo, reports)))
    if faults:
        raise stage.Failed('not as promised:\n  ' + '\n  '.join(faults[:20]))


def play(demo):
    disturbed(demo)
    undisturbed(demo)
    compare(demo)
    print(f'\nThat took {time.monotonic() - demo.began:.0f} s. The trainer is examples/mnist; '
          'make it yours: build/muster help run')


if __name__ == '__main__':
    stage.run(Demo(os.path.abspath(sys.argv[1])), play)
