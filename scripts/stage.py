"""What the demos play on: processes of muster in a folder of their own, and the one place where
lines come out."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

COLOURS = {'a': 36, 'b': 33, 'c': 35, 'd': 32, 'orchestrator': 34}
PATIENCE_S = 180  # A machine may be busy.


class Failed(Exception):
    """Something is not as promised."""


class Stage:
    """A demo says what its nodes are, and with heard() what it makes of a line."""

    def __init__(self, muster):
        self.muster = muster
        self.folder = tempfile.mkdtemp(prefix='muster-demo-')
        self.env = dict(os.environ, XDG_STATE_HOME=self.folder, NO_COLOR='1')
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.over = False
        self.running = {}
        self.readers = {}
        self.endpoint = None
        self.port = '0'
        self.step = 0

    # ---- what people see ----

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

    def heard(self, who, line):
        """Takes note of a line; whether people are to see it."""
        raise NotImplementedError

    def read(self, who, process):
        for line in process.stdout:
            line = line.rstrip()
            found = re.search(r'listens on (\S+?);', line)
            if found:
                self.endpoint = found.group(1)
            if self.heard(who, line) and not self.over:
                line = re.sub(r'^\S+Z +(info|warn|error) +(agent|orchestrator): ', '', line)
                self.say(who, re.sub(r'(listens on \S+?);.*', r'\1', line))

    # ---- processes ----

    def start(self, who, *args, env=None):
        process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=env or self.env, cwd=self.folder)
        self.running[who] = process
        self.readers[who] = threading.Thread(target=self.read, args=(who, process), daemon=True)
        self.readers[who].start()
        return process

    def serve(self):
        """On the same port as before, if there was one: nodes look for it there."""
        self.endpoint = None
        self.start('orchestrator', self.muster, 'serve', '--listen', f'127.0.0.1:{self.port}')
        self.wait_for(lambda: self.endpoint, 'the orchestrator to listen')
        self.port = self.endpoint.rsplit(':', 1)[1]

    def kill(self, who):
        process = self.running.pop(who)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def ask(self, *args):
        return subprocess.run([self.muster, *args, '--endpoint', self.endpoint], env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)

    # ---- waiting ----

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise Failed(f'waited for {PATIENCE_S} s for {what}')
            ended = [who for who in self.running if self.running[who].poll()]
            if ended:
                raise Failed(f'{ended[0]} ended with {self.running[ended[0]].poll()}')
            time.sleep(0.05)

    def wait_step(self, step):
        self.wait_for(lambda: self.step >= step, f'step {step}')

    def wait_end(self, who):
        try:
            code = self.running[who].wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failed(f'{who} did not end within {PATIENCE_S} s') from None
        self.readers[who].join(timeout=PATIENCE_S)
        if code != 0:
            raise Failed(f'{who} ended with {code}')

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


def run(demo, play):
    """Plays it, cleans up, and exits as it ended."""
    try:
        play(demo)
    except Failed as error:
        sys.exit(f'demo: {error}')
    finally:
        demo.close()
