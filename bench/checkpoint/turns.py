"""Saved and restored, in turns with those who do nothing else: memcpy, dd, and torch."""
import os
import shutil
import statistics
import subprocess

from checkpoint import files, trainer
from control import measure
from control.process import LONG, Failed
from control.torchrun import PYTHON

TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'torch_files.py')
SHARE = 0.7  # of what the disk can do


class Turns:
    def __init__(self, programs, folder, size, saves, torch):
        self.programs = programs
        self.folder = folder
        self.size = size
        self.saves = saves
        self.torch = torch
        self.found = {}

    def note(self, what, value):
        self.found.setdefault(what, []).append(value)

    def gb_s(self, seconds):
        return self.size / 1e9 / seconds

    def save(self, folder, workers):
        """The first goes into memory that nobody has used yet, and is told by itself."""
        first, *lines = trainer.run(self.programs, folder, workers, 'save', self.size, self.saves + 1)
        if len(lines) != self.saves:
            raise Failed(f'there are {len(lines) + 1} saves, not {self.saves + 1}')
        self.note(('first by copy', workers), int(first[1]) / int(first[4]))
        for _, stall_us, told_us, written_us, copy_us in lines:
            self.note(('stall', workers), int(stall_us) / 1e3)
            self.note(('told', workers), int(told_us) / 1e3)
            self.note(('copy', workers), int(copy_us) / 1e3)
            self.note(('stall by copy', workers), int(stall_us) / int(copy_us))
            self.note(('write', workers), self.gb_s(int(written_us) / 1e6))

    # ---- written; what was there before goes when the new one is there ----

    def save_one(self):
        self.save(f'{self.folder}/one', 1)

    def save_two(self):
        self.save(f'{self.folder}/two', 2)

    def write_dd(self):
        for _ in range(self.saves):
            self.note('dd', self.gb_s(files.written_s(self.source(), f'{self.folder}/dd/file')))
            self.note('dd, direct', self.gb_s(files.written_s(self.source(), f'{self.folder}/dd/file',
                                                              'oflag=direct')))

    def save_torch(self):
        path = f'{self.folder}/torch/file'
        for _ in range(self.saves):
            plain_s, synced_s = self.ask_torch('save', f'{path}.new', str(self.size))
            os.rename(f'{path}.new', path)
            self.note('torch.save', self.gb_s(plain_s))
            self.note('torch.save, fsync', self.gb_s(synced_s))

    def source(self):
        """As many bytes, in memory."""
        path = f'{self.folder}/source'
        if not os.path.exists(path):
            files.dd('if=/dev/urandom', f'of={path}', 'iflag=count_bytes', f'count={self.size}')
        files.dd(f'if={path}', 'of=/dev/null')
        return path

    # ---- read; the disk's own cache has it in any case ----

    def load_one(self):
        shards = files.shards(f'{self.folder}/one/ckpt')
        files.read_s(shards)
        files.forget(shards)
        (_, us, step), = trainer.run(self.programs, f'{self.folder}/one', 1, 'load', self.size)
        if int(step) == 0:
            raise Failed('nothing was restored')
        self.note('load', self.gb_s(int(us) / 1e6))

    def read_dd(self):
        shards = files.shards(f'{self.folder}/one/ckpt')
        files.read_s(shards)
        self.note('read', files.size(shards) / 1e9 / files.read_s(shards))
        self.note('read, direct', files.size(shards) / 1e9 / files.read_s(shards, 'iflag=direct'))

    def load_torch(self):
        path = f'{self.folder}/torch/file'
        files.read_s([path])
        files.forget([path])
        self.note('torch.load', self.gb_s(self.ask_torch('load', path)[0]))

    def ask_torch(self, *words):
        done = subprocess.run([PYTHON, TORCH, *words], stdout=subprocess.PIPE, check=True, text=True, timeout=LONG)
        return [float(word) for word in done.stdout.split()]

    # ---- all of it ----

    def turn(self, number):
        """One after the other; in each turn another one is the first. Ratios are those of one turn."""
        for name in ('one', 'two', 'dd', 'torch'):
            os.makedirs(f'{self.folder}/{name}', exist_ok=True)
        files.remove(f'{self.folder}/*/ckpt/*/*step-*')
        writes = [self.save_one, self.write_dd, self.save_two] + [self.save_torch] * self.torch
        reads = [self.load_one, self.read_dd] + [self.load_torch] * self.torch
        for acts in (writes, reads):
            first = number % len(acts)
            for act in acts[first:] + acts[:first]:
                act()
        self.compare('write by dd', ('write', 1), 'dd')
        self.compare('write by direct dd', ('write', 1), 'dd, direct')
        self.compare('load by read', 'load', 'read')
        self.compare('load by direct read', 'load', 'read, direct')
        if self.torch:
            self.compare('write by torch', ('write', 1), 'torch.save, fsync')
            self.compare('load by torch', 'load', 'torch.load')

    def compare(self, what, ours, theirs):
        """Of several in one turn, their median."""
        n = self.saves if isinstance(ours, tuple) else 1
        self.note(what, statistics.median(self.found[ours][-n:]) / statistics.median(self.found[theirs][-n:]))

    def run(self, turns):
        """What is written for the first time to a place of the disk may take much longer: a turn for that."""
        measure.note('a turn that does not count')
        self.turn(0)
        self.found = {}
        for i in range(turns):
            measure.note(f'turn {i + 1} of {turns}')
            self.turn(i)
        shutil.rmtree(self.folder)

    def report(self, report, name):
        for workers in (1, 2):
            who = f'{name}, {workers} worker{"s" if workers > 1 else ""}'
            report.add_all(f'{who}: training stands still', self.found['stall', workers], 'ms')
            report.add_all(f'{who}: … as libmuster says', self.found['told', workers], 'ms')
            report.add_all(f'{who}: one memcpy of all of it', self.found['copy', workers], 'ms')
            report.add_all(f'{who}: stands still, by one memcpy', self.found['stall by copy', workers], 'x', goal=1)
            report.add_all(f'{who}: … the first time', self.found['first by copy', workers], 'x')
            report.add_all(f'{who}: written', self.found['write', workers], 'GB/s')
        for what, key, more in (
                ('dd conv=fsync', 'dd', None), ('written by 1 worker, by dd', 'write by dd', SHARE),
                ('dd conv=fsync oflag=direct', 'dd, direct', None),
                ('written by 1 worker, by direct dd', 'write by direct dd', None),
                ('torch.save', 'torch.save', None), ('torch.save and fsync', 'torch.save, fsync', None),
                ('written by 1 worker, by torch.save and fsync', 'write by torch', None),
                ('restored', 'load', None), ('dd of=/dev/null', 'read', None),
                ('restored, by dd', 'load by read', SHARE),
                ('dd of=/dev/null iflag=direct', 'read, direct', None),
                ('restored, by direct dd', 'load by direct read', None), ('torch.load', 'torch.load', None),
                ('restored, by torch.load', 'load by torch', None)):
            if key in self.found:
                report.add_all(f'{name}: {what}', self.found[key], 'x' if ' by ' in key else 'GB/s',
                               **({'least': more} if more else {}))
