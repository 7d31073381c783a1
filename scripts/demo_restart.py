#!/usr/bin/env python3
"""Restart mode: an orchestrator and three nodes here, a script that knows nothing of muster, and losses.

usage: demo_restart.py MUSTER
"""
import os
import re
import sys

import stage

SCRIPT = os.path.join(os.path.dirname(__file__), '..', 'examples', 'restart', 'train.py')
STEPS = 150


class Demo(stage.Stage):
    def heard(self, who, line):
        found = re.search(r'\] step (\d+):', line)
        if found:
            self.step = int(found.group(1))
        return not re.search(r'is warm|is active|connection closed|has finished', line)

    def node(self, name):
        return self.start(name, self.muster, 'run', '--nnodes=1:3',
                          f'--rdzv_endpoint={self.endpoint}', '--node-name', name,
                          '--mode', 'restart', SCRIPT, '--steps', str(STEPS),
                          '--checkpoint', os.path.join(self.folder, 'checkpoint.json'))


def play(demo):
    demo.tell('An orchestrator. It keeps a journal, and is needed only to change who takes part.')
    demo.serve()
    demo.tell('Three nodes, each with a script that knows nothing of muster: it reads RANK and '
              'WORLD_SIZE.')
    for name in 'abc':
        demo.node(name)
    demo.wait_step(30)
    demo.tell('kill -9 of node b. The others start again without it, from their checkpoint.')
    demo.kill('b')
    demo.wait_step(60)
    demo.tell('Node d comes. It is taken in.')
    demo.node('d')
    demo.wait_step(80)
    demo.tell('kill -9 of the orchestrator. Nobody notices.')
    demo.kill('orchestrator')
    demo.wait_step(110)
    demo.tell('It is started again, reads its journal, and knows everyone: nothing is restarted.')
    demo.serve()
    demo.wait_step(STEPS)
    for name in 'acd':
        demo.wait_end(name)
    demo.tell('What the orchestrator says of the job now:')
    print(demo.ask('status').stdout, end='', flush=True)
    print(f'\nAll {STEPS} steps are done. One node was lost, one was added, the orchestrator was '
          'killed.\nTry it with a script of yours: build/muster help run')


if __name__ == '__main__':
    stage.run(Demo(os.path.abspath(sys.argv[1])), play)
