#!/usr/bin/env python3
"""Restart mode: an orchestrator and three nodes here, a script that knows nothing of muster, and losses.

usage: demo_restart.py MUSTER
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SCRIPT = os.path.join(os.path.dirname(__file__), '..', 'examples', 'restart', 'train.py')
STEPS = 150
COLOURS = {'a': 36, 'b': 33, 'c': 35, 'd': 32, 'orchestrator': 34}


class Demo:
    """Everything that runs, and the one place where lines come out."""

    def __init__(self, muster):
        self.muster = muster
        self.folder = tempfile.mkdtemp(prefix='muster-demo-')
        self.env = dict(os.environ, XDG_STATE_HOME=self.folder, NO_COLOR='1')
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.over = False
        self.running = {}
        self.endpoint = None
        self.step = 0

    def say(self, who, text):
        with self.lock:
            colour = COLOURS.get(who)
            name = f'{who:<12}'
            if colour and sys.stdout.isatty() and 'NO_COLOR' not in os.environ:
                name = f'\033[{colour}m{name}\033[0m'
            print(f'{time.monotonic() - self.began:5.1f}  {name}  {text}', flush=True)

    def tell(self, text):
        with self.lock:
            print(f'\n       {text}', flush=True)

    def start(self, who, *args):
        process = subprocess.Popen([self.muster, *args], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env=self.env,
                                   cwd=self.folder)
        self.running[who] = process
        reader = threading.Thread(target=self.read, args=(who, process), daemon=True)
        reader.start()
        return process

    def read(self, who, process):
        for line in process.stdout:
            found = re.search(r'listens on (\S+?);', line)
            if found:
                self.endpoint = found.group(1)
            found = re.search(r'\] step (\d+):', line)
            if found:
                self.step = int(found.group(1))
            text = re.sub(r'^\S+Z +(info|warn|error) +(agent|orchestrator): ', '', line.rstrip())
            dull = re.search(r'is warm|is active|connection closed|has finished', text)
            if not dull and not self.over:
                self.say(who, text)

    def serve(self):
        self.endpoint = None
        port = self.port if hasattr(self, 'port') else '0'
        self.start('orchestrator', 'serve', '--listen', f'127.0.0.1:{port}')
        self.wait_for(lambda: self.endpoint, 'the orchestrator to listen')
        self.port = self.endpoint.rsplit(':', 1)[1]

    def node(self, name):
        return self.start(name, 'run', '--nnodes=1:3', f'--rdzv_endpoint={self.endpoint}',
                          '--node-name', name, '--mode', 'restart', SCRIPT, '--steps', str(STEPS),
                          '--checkpoint', os.path.join(self.folder, 'checkpoint.json'))

    def kill(self, who):
        process = self.running.pop(who)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def wait_for(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f'demo: waited for a minute for {what}')
            time.sleep(0.05)

    def wait_step(self, step):
        self.wait_for(lambda: self.step >= step, f'step {step}')

    def close(self):
        self.over = True  # What they say now is about our own end of it.
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def play(demo):
    demo.tell('An orchestrator. It keeps a journal, and is needed only to change who takes part.')
    demo.serve()
    demo.tell('Three nodes, each with a script that knows nothing of muster: it reads RANK and '
              'WORLD_SIZE.')
    nodes = [demo.node(name) for name in 'abc']
    demo.wait_step(30)
    demo.tell('kill -9 of node b. The others start again without it, from their checkpoint.')
    demo.kill('b')
    demo.wait_step(60)
    demo.tell('Node d comes. It is taken in.')
    nodes.append(demo.node('d'))
    demo.wait_step(80)
    demo.tell('kill -9 of the orchestrator. Nobody notices.')
    demo.kill('orchestrator')
    demo.wait_step(110)
    demo.tell('It is started again, reads its journal, and knows everyone: nothing is restarted.')
    demo.serve()
    demo.wait_step(STEPS)
    codes = [p.wait(timeout=60) for p in nodes if p.poll() != -signal.SIGKILL]
    demo.tell('What the orchestrator says of the job now:')
    sys.stdout.flush()
    subprocess.run([demo.muster, 'status', '--endpoint', demo.endpoint], env=demo.env, check=False)
    if any(codes):
        raise SystemExit(f'demo: nodes ended with {codes}')
    print(f'\nAll {STEPS} steps are done. One node was lost, one was added, the orchestrator was '
          'killed.\nTry it with a script of yours: build/muster help run')


def main():
    demo = Demo(os.path.abspath(sys.argv[1]))
    try:
        play(demo)
    finally:
        demo.close()


if __name__ == '__main__':
    main()
