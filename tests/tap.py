"""Runs the functions of a module whose names begin with test_ and tells of them in TAP."""
import concurrent.futures
import sys
import traceback


class Skipped(Exception):
    pass


def skip(why):
    """Ends a case that can't run here; it counts as skipped."""
    raise Skipped(why)


def attempt(case):
    """(went well, why it was skipped, what is to be told)"""
    try:
        case()
        return True, '', ''
    except Skipped as why:
        return True, f' # SKIP {why}', ''
    except Exception:  # pylint: disable=broad-except
        return False, '', traceback.format_exc()


def run(module, jobs=1, only=()):
    """Up to `jobs` cases at a time, each in a thread; all, or only those with these names."""
    cases = [(name[len('test_'):], case) for name, case in vars(sys.modules[module]).items()
             if name.startswith('test_') and (not only or name[len('test_'):] in only)]
    failed = 0
    out, err = sys.stdout, sys.stderr  # A case that runs meanwhile may have redirected its own.
    print(f'1..{len(cases)}', flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ends = pool.map(attempt, [case for _, case in cases])
        for number, ((name, _), (well, skipped, text)) in enumerate(zip(cases, ends), 1):
            failed += not well
            err.write(text)
            err.flush()
            print(f'{"ok" if well else "not ok"} {number} - {name}{skipped}', file=out, flush=True)
    sys.exit(1 if failed else 0)
