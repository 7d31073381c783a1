"""Saved and restored, in turns with those who do nothing else: memcpy, dd, and torch."""
import os
import shutil
import subprocess

from checkpoint import files, trainer
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
        lines = trainer.run(self.programs, folder, workers, 'save', self.size, self.saves)
        if len(lines) != self.saves:
            raise Failed(f'there are {len(lines)} saves, not {self.saves}')
        for _, stall_us, told_us, written_us, copy_us in lines:
            self.note(('stall', workers), int(stall_us) / 1e3)
            self.note(('told', workers), int(told_us) / 1e3)
            self.note(('copy', workers), int(copy_us) / 1e3)
            self.note(('stall by copy', workers), int(stall_us) / int(copy_us))
            self.note(('write', workers), self.gb_s(int(written_us) / 1e6))

    def load(self, folder):
        files.forget(files.shards(folder))
        (_, us, step), = trainer.run(self.programs, os.path.dirname(folder), 1, 'load', self.size)
        if int(step) == 0:
            raise Failed('nothing was restored')
        return int(us) / 1e6

    def save_torch(self, path):
        plain_s, synced_s = self.ask_torch('save', path, str(self.size))
        self.note('torch.save', self.gb_s(plain_s))
        self.note('torch.save, fsync', self.gb_s(synced_s))

    def load_torch(self, path):
        files.forget([path])
        self.note('torch.load', self.gb_s(self.ask_torch('load', path)[0]))

    def ask_torch(self, *words):
        done = subprocess.run([PYTHON, TORCH, *words], stdout=subprocess.PIPE, check=True, text=True, timeout=LONG)
        return [float(word) for word in done.stdout.split()]

    def turn(self):
        """One after the other, each on a folder that was empty; ratios are those of one turn."""
        os.makedirs(self.folder)
        self.save(f'{self.folder}/one', 1)
        ours = f'{self.folder}/one/ckpt'
        shards = files.shards(ours)
        dd_s = files.written_s(shards[0], f'{self.folder}/dd')
        self.note('dd', files.size(shards[:1]) / 1e9 / dd_s)
        self.note('write by dd', self.found['write', 1][-1] / self.found['dd'][-1])
        self.save(f'{self.folder}/two', 2)
        shutil.rmtree(f'{self.folder}/two')
        if self.torch:
            self.save_torch(f'{self.folder}/torch.pt')
        load_s = self.load(ours)
        self.note('load', self.gb_s(load_s))
        self.note('read', files.size(shards) / 1e9 / files.read_s(shards))
        self.note('load by read', self.found['load'][-1] / self.found['read'][-1])
        if self.torch:
            self.load_torch(f'{self.folder}/torch.pt')
            self.note('write by torch', self.found['write', 1][-1] / self.found['torch.save, fsync'][-1])
            self.note('load by torch', self.found['load'][-1] / self.found['torch.load'][-1])
        shutil.rmtree(self.folder)

    def report(self, report, name):
        for workers in (1, 2):
            who = f'{name}, {workers} worker{"s" if workers > 1 else ""}'
            report.add_all(f'{who}: training stands still', self.found['stall', workers], 'ms')
            report.add_all(f'{who}: … as libmuster says', self.found['told', workers], 'ms')
            report.add_all(f'{who}: one memcpy of all of it', self.found['copy', workers], 'ms')
            report.add_all(f'{who}: stands still, by one memcpy', self.found['stall by copy', workers], 'x', goal=1)
            report.add_all(f'{who}: written', self.found['write', workers], 'GB/s')
        for what, key, more in (
                ('dd conv=fsync', 'dd', None), ('written by 1 worker, by dd', 'write by dd', SHARE),
                ('torch.save', 'torch.save', None), ('torch.save and fsync', 'torch.save, fsync', None),
                ('written by 1 worker, by torch.save and fsync', 'write by torch', None),
                ('restored', 'load', None), ('dd of=/dev/null', 'read', None),
                ('restored, by dd', 'load by read', SHARE), ('torch.load', 'torch.load', None),
                ('restored, by torch.load', 'load by torch', None)):
            if key in self.found:
                report.add_all(f'{name}: {what}', self.found[key], 'x' if ' by ' in key else 'GB/s',
                               **({'least': more} if more else {}))
