"""What trainers wrote down; see paced.c. Times are ns of the monotonic clock."""
import dataclasses
import os


@dataclasses.dataclass
class Slice:
    """One that was computed from ns to until_ns."""
    ns: int
    asked_ns: int
    until_ns: int
    generation: int
    step: int
    rank: int
    world: int
    slice: int


@dataclasses.dataclass
class Step:
    """One that was committed at ns, and whose update was made at until_ns."""
    ns: int
    asked_ns: int
    until_ns: int
    generation: int
    step: int
    rank: int
    world: int
    again: int = 0
    pause_us: int = 0
    pauses_us: int = 0
    got_bytes: int = 0


class Log:
    """Of one process: what it has written so far."""

    def __init__(self, path):
        self.node, pid, _ = os.path.basename(path).rsplit('.', 2)
        self.pid = int(pid)
        self.file = open(path, 'rb')
        self.rest = b''
        self.start_ns = None
        self.slices = []
        self.steps = []

    def read(self):
        lines = (self.rest + self.file.read()).split(b'\n')
        self.rest = lines.pop()  # A line without its end is being written.
        for line in lines:
            kind, *numbers = line.split()
            numbers = [int(n) for n in numbers]
            if kind == b'start':
                self.start_ns = numbers[0]
            elif kind == b'slice':
                self.slices.append(Slice(*numbers))
            else:
                self.steps.append(Step(*numbers))

    def computed_ns(self, from_ns, to_ns):
        """How long of that time it was computing slices."""
        return sum(max(0, min(s.until_ns, to_ns) - max(s.ns, from_ns))
                   for s in reversed(self.slices))


class Marks:
    """All processes of a folder."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.logs = {}  # by file name

    def read(self):
        for name in os.listdir(self.folder):
            if name not in self.logs:
                self.logs[name] = Log(os.path.join(self.folder, name))
        for log in self.logs.values():
            log.read()
        return self

    def newest(self):
        """By node, the log of the process that started last."""
        found = {}
        for log in self.logs.values():
            if log.start_ns is not None and (log.node not in found
                                             or log.start_ns > found[log.node].start_ns):
                found[log.node] = log
        return found

    def last_step(self):
        return max((log.steps[-1].step for log in self.logs.values() if log.steps), default=0)

    def commits(self):
        """By step, when the first worker saw it committed."""
        found = {}
        for log in self.logs.values():
            for step in log.steps:
                found[step.step] = min(step.ns, found.get(step.step, step.ns))
        return found

    def close(self):
        for log in self.logs.values():
            log.file.close()
