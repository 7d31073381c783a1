"""Measures everybody in turn, again and again, and sets them side by side."""
import statistics

from allreduce import contestants, network
from control.measure import note

RANKS = (2, 4)
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20)
AGREED = 1 << 20
TURNS, BATCHES, SECONDS = 5, 2, 0.15
SHARED, PLAIN, AGREE = 'muster, mu_alloc', 'muster, ordinary buffers', 'muster, mu_alloc, agreed'
LIMIT = {'shm': 'limit: additions alone', 'tcp': 'limit: send and recv alone'}

# By how much the best peer is to be beaten, from which size.
LEAST = {('shm', SHARED): (3.0, 1 << 20), ('shm', PLAIN): (1.5, 1 << 20),
         ('tcp', SHARED): (1.3, 64 << 10), ('tcp', PLAIN): (1.3, 64 << 10)}


def text_of(size):
    return f'{size >> 20} MB' if size >= 1 << 20 else f'{size >> 10} KB'


class Cells:
    """µs by (path, ranks, size, who): a list of turns, each a list of batches."""

    def __init__(self):
        self.us = {}

    def add(self, path, ranks, who, found):
        for size, us in found.items():
            self.us.setdefault((path, ranks, size, who), []).append(us)

    def turns(self, path, ranks, size, who):
        """The median of each turn."""
        return [statistics.median(us) for us in self.us.get((path, ranks, size, who), [])]

    def rates(self, path, ranks, size, who):
        """GB/s, of every batch."""
        return [size / u / 1e3 for us in self.us.get((path, ranks, size, who), []) for u in us]

    def rate(self, path, ranks, size, who):
        """Their median; None: it was not measured."""
        rates = self.rates(path, ranks, size, who)
        return statistics.median(rates) if rates else None

    def names(self, path, ranks):
        return list(dict.fromkeys(key[3] for key in self.us if key[:2] == (path, ranks)))


def measure_all(cells, everybody, ranks_list, sizes, turns, batches, seconds, folder):
    for turn in range(turns):
        for path in ('shm', 'tcp'):
            for ranks in ranks_list:
                note(f'turn {turn + 1} of {turns}: {ranks} ranks, {path}')
                for who in everybody:
                    if path in who.paths:
                        found, limits = who.measure(path, ranks, sizes, seconds, batches, folder)
                        cells.add(path, ranks, who.name, found)
                        cells.add(path, ranks, LIMIT[path], limits)


def best_peer(cells, peers, path, ranks, size):
    known = [(cells.rate(path, ranks, size, p.name), p.name) for p in peers]
    return max((k for k in known if k[0]), default=(None, None))[1]


def ratios(cells, path, ranks, size, one, other):
    """Of the times, turn by turn: they were measured one after the other."""
    return [a / b for a, b in zip(cells.turns(path, ranks, size, one),
                                  cells.turns(path, ranks, size, other))]


def report_cell(report, cells, path, ranks, size, who):
    rate = cells.rate(path, ranks, size, who)
    limit = cells.rate(path, ranks, size, LIMIT[path])
    if rate:
        more = {'of_limit': rate / limit} if who.startswith('muster') and limit else {}
        report.add_all(f'{path}, {ranks} ranks, {text_of(size)}: {who}',
                       cells.rates(path, ranks, size, who), 'GB/s', us=size / rate / 1e3, **more)


def report_ratio(report, cells, peers, path, ranks, size, who):
    best = best_peer(cells, peers, path, ranks, size)
    values = best and ratios(cells, path, ranks, size, best, who)
    if not values:
        return
    least, start = LEAST[(path, who)]
    goal = {'least': least} if size >= start else {}
    if (path, ranks, size, who) == ('shm', 2, 4 << 10, SHARED):
        goal = {'least': 1.0}
    report.add_all(f'{path}, {ranks} ranks, {text_of(size)}: {who}, by the best peer ({best})',
                   values, 'times', **goal)


def report_all(report, cells, peers, ranks_list, sizes):
    for path in ('shm', 'tcp'):
        for ranks in ranks_list:
            for size in sizes:
                for who in cells.names(path, ranks):
                    report_cell(report, cells, path, ranks, size, who)
                for who in (SHARED, PLAIN):
                    report_ratio(report, cells, peers, path, ranks, size, who)
    for ranks in ranks_list:
        for size in sizes:
            more = ratios(cells, 'shm', ranks, size, AGREE, SHARED)
            if more:
                report.add_all(f'shm, {ranks} ranks, {text_of(size)}: what agreeing costs',
                               [(m - 1) * 100 for m in more], '%', goal=5)


def show(cells, ranks_list, sizes):
    """A table for whoever watches: GB/s, and µs for the smallest."""
    for path in ('shm', 'tcp'):
        for ranks in ranks_list:
            note('')
            note(f"{path + f', {ranks} ranks, GB/s':<28}"
                 + ''.join(f'{text_of(size):>10}' for size in sizes)
                 + f"{'µs, ' + text_of(sizes[0]):>12}")
            for who in cells.names(path, ranks):
                rates = [cells.rate(path, ranks, size, who) for size in sizes]
                row = ''.join(f'{rate:>10.2f}' if rate else f"{'':>10}" for rate in rates)
                note(f'{who:<28}{row}'
                     + (f'{sizes[0] / rates[0] / 1e3:>12.2f}' if rates[0] else ''))


def run_with(report, programs, folder, ranks_list, sizes, turns, batches, seconds):
    report.about['congestion'] = network.make_cubic()
    report.about.update(contestants.about_mpi())
    ours, peers, missing = contestants.find(programs['muster'], folder, AGREED)
    if missing:
        report.about['missing'] = ', '.join(missing)
        note(f"not here, and so not measured: {report.about['missing']}")
    cells = Cells()
    measure_all(cells, [*ours, *peers], ranks_list, sizes, turns, batches, seconds, folder)
    report_all(report, cells, peers, ranks_list, sizes)
    show(cells, ranks_list, sizes)


def run(report, programs, folder):
    run_with(report, programs, folder, RANKS, SIZES, TURNS, BATCHES, SECONDS)


def quick(report, programs, folder):
    run_with(report, programs, folder, (2,), (4 << 10, 1 << 20), 2, 1, 0.01)
