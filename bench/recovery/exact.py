"""Steps lost, samples lost, samples repeated: what the audit of a cluster says."""
import os
import sys

from recovery.shape import BATCH, SAMPLES

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tests/e2e'))

import audit  # pylint: disable=wrong-import-position,import-error


class Counts:
    """Over all clusters of a run."""

    def __init__(self):
        self.steps = self.steps_lost = self.lost = self.repeated = self.faults = 0
        self.first_fault = None

    def add(self, cluster):
        """It is closed by now."""
        log = audit.read(cluster.audit)
        last = max(log.commits, default=0)
        result = audit.check(log, audit.Walk(SAMPLES, BATCH, cluster.shape.slices), last)
        self.steps += result.steps
        self.steps_lost += last - result.steps
        self.lost += result.lost
        self.repeated += result.repeated
        self.faults += len(result.faults)
        if result.faults and self.first_fault is None:
            self.first_fault = result.faults[0]

    def report(self, report):
        more = {'first_fault': self.first_fault} if self.first_fault else {}
        report.add('audit: steps committed', self.steps, 'steps')
        report.add('audit: steps lost', self.steps_lost, 'steps', goal=0)
        report.add('audit: samples lost', self.lost, 'samples', goal=0)
        report.add('audit: samples repeated', self.repeated, 'samples', goal=0)
        report.add('audit: anything else that is wrong', self.faults, 'faults', goal=0, **more)
