"""Runs the functions of a module whose names begin with test_ and tells of them in TAP."""
import concurrent.futures
import os
import sys
import time
import traceback


class Skipped(Exception):
    pass


def skip(why):
    """Ends a case that can't run here; it counts as skipped."""
    raise Skipped(why)


def attempt(case):
    """(went well, why it was skipped, what is to be told, how long it took)"""
    began = time.monotonic()
    well, skipped, text = True, '', ''
    try:
        case()
    except Skipped as why:
        skipped = f' # SKIP {why}'
    except Exception:  # pylint: disable=broad-except
        well, text = False, traceback.format_exc()
    return well, skipped, text, time.monotonic() - began


def run(module, jobs=1, only=()):
    """Up to `jobs` cases at a time, each in a thread; all, or only those with these names, or that of CASE. Each is
    told of when it is over, so that a failure is seen when it happens."""
    only = only or os.environ.get('CASE', '').split()
    cases = [(name[len('test_'):], case) for name, case in vars(sys.modules[module]).items()
             if name.startswith('test_') and (not only or name[len('test_'):] in only)]
    if not cases:
        sys.exit(f'there is no case {" ".join(only)}')
    failed = 0
    out, err = sys.stdout, sys.stderr  # A case that runs meanwhile may have redirected its own.
    print(f'1..{len(cases)}', flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        names = {pool.submit(attempt, case): name for name, case in cases}
        for number, end in enumerate(concurrent.futures.as_completed(names), 1):
            well, skipped, text, took_s = end.result()
            failed += not well
            err.write(text)
            err.flush()
            print(f'{"ok" if well else "not ok"} {number} - {names[end]}{skipped}\n'
                  f'# {names[end]} took {took_s:.1f} s', file=out, flush=True)
    sys.exit(1 if failed else 0)
