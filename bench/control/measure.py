"""Results as they are printed, and what the machine was doing meanwhile."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from control.process import Failed


def note(text):
    """Progress, for whoever watches."""
    print(f'# {text}', file=sys.stderr, flush=True)


class Report:
    """The list of measurements of one run; see bench.h for its form."""

    def __init__(self):
        self.results = []
        self.about = {}  # What else is to be said of the run.

    def add(self, name, value, unit, **more):
        """`goal`, if there is one, is the most that it should be, `least` the least."""
        result = {'name': name, 'value': value, 'unit': unit, **more}
        if 'goal' in result:
            result['met'] = value <= result['goal']
        if 'least' in result:
            result['met'] = value >= result['least']
        self.results.append(result)
        note(f'{name}: {value:.4g} {unit}')

    def add_all(self, name, values, unit, **more):
        """The median of several, and their spread."""
        values = sorted(values)
        self.add(name, statistics.median(values), unit, n=len(values), min=values[0],
                 p10=at(values, 0.1), p90=at(values, 0.9), max=values[-1], **more)

    def print(self, bench, version, about):
        rounded = [{key: round_to(value) for key, value in result.items()}
                   for result in self.results]
        lines = ',\n  '.join(json.dumps(result) for result in rounded)
        print(f'{{"bench": "{bench}", "version": "{version}", "machine": {json.dumps(about)}, '
              f'"results": [\n  {lines}\n]}}')


def round_to(value):
    return float(f'{value:.4g}') if isinstance(value, float) else value


def at(values, part):
    """A quantile of a sorted list."""
    return values[min(int(part * len(values)), len(values) - 1)]


def load():
    return os.getloadavg()[0]


def disk_of(path):
    """The type of the file system below a path: tmpfs would make the journal free."""
    best = ('', '?')
    with open('/proc/mounts', encoding='utf-8') as mounts:
        for line in mounts:
            _, where, kind = line.split()[:3]
            if os.path.realpath(path).startswith(where) and len(where) >= len(best[0]):
                best = (where, kind)
    return best[1]


def machine(folder):
    model = '?'
    with open('/proc/cpuinfo', encoding='utf-8') as info:
        for line in info:
            if line.startswith('model name'):
                model = line.split(':', 1)[1].strip()
                break
    return {'cpu': model, 'cores': len(os.sched_getaffinity(0)), 'disk': disk_of(folder),
            'load': load()}


def run(bench, build, programs, parts):
    """Calls parts(report, programs, folder), prints what they reported, gives the exit status."""
    # In the build folder: /tmp may be memory, and the journal is to be on a disk.
    folder = tempfile.mkdtemp(prefix=f'{bench}-', dir=build)
    about = machine(folder)
    report = Report()
    try:
        parts(report, programs, folder)
    except Failed as why:
        note(f'failed: {why}; the logs are in {folder}')
        return 1
    shutil.rmtree(folder)
    version = subprocess.run([programs['muster'], '--version'], stdout=subprocess.PIPE, check=True,
                             text=True).stdout.split()[-1]
    about['load_after'] = load()
    report.print(bench, version, {**about, **report.about})
    return 0
