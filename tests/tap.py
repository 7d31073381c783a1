"""Runs the functions of a module whose names begin with test_ and tells of them in TAP."""
import sys
import traceback


class Skipped(Exception):
    pass


def skip(why):
    """Ends a case that can't run here; it counts as skipped."""
    raise Skipped(why)


def run(module):
    cases = [(name[len('test_'):], case) for name, case in vars(sys.modules[module]).items()
             if name.startswith('test_')]
    failed = 0
    print(f'1..{len(cases)}')
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f'ok {number} - {name}')
        except Skipped as why:
            print(f'ok {number} - {name} # SKIP {why}')
        except Exception:  # pylint: disable=broad-except
            failed += 1
            traceback.print_exc()
            print(f'not ok {number} - {name}')
    sys.exit(1 if failed else 0)
