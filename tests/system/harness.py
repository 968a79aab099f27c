# SPDX-License-Identifier: BSD-2-Clause
"""What a system test stands on: cases that share one booted server, and what each of them found.

    def test_something(machine):
        same(machine.check("nproc").strip(), "2", "CPUs")

    run_cases(lambda: boot_server(below="keel"), [test_something, ...])

A case fails by an exception: LabError from the lab, Wrong from same() and has(). A case that needs
what this machine does not have raises Skip. The file is a program: exit 0, 1, or 77 for skipped.
"""
import os
import re
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from lab import images  # noqa: E402
from lab.machine import Hardware, Machine  # noqa: E402
from lab.paths import LabError  # noqa: E402

EXIT_SKIP = 77


class Wrong(Exception):
    """Something came out otherwise than it has to."""


class Skip(Exception):
    """Cannot be tested here; the text says why."""


def same(got, wanted, what):
    if got != wanted:
        raise Wrong(f"{what}: got {got!r}, wanted {wanted!r}")


def has(text, pattern, what):
    """The match of a regular expression that the text has to have."""
    match = re.search(pattern, text, re.M)
    if not match:
        raise Wrong(f"{what}: no /{pattern}/ in:\n{text}")
    return match


def within(value, low, high, what):
    if not low <= value <= high:
        raise Wrong(f"{what}: {value} is not within {low} and {high}")


def boot_server(name=None, limit_s=300, hardware=None, **wanted):
    """A machine whose root answers; wanted is what images.make_boot() takes. To be used by `with`."""
    name = name or os.path.basename(sys.argv[0])[:-3]
    boot, disks = images.make_boot(tell=print, **wanted)
    hardware = hardware or Hardware()
    hardware.disks = disks + hardware.disks
    return Machine(name, boot, wanted.get("below", "keel"), hardware, limit_s)


def run_case(case, *arguments):
    """True if it passed, None if it was skipped; says how long it took and what was wrong."""
    start = time.monotonic()
    try:
        case(*arguments)
    except Skip as why:
        print(f"skip {case.__name__}: {why}", flush=True)
        return None
    except (Wrong, LabError) as error:
        print(f"FAIL {case.__name__}: {error}", flush=True)
        return False
    except Exception:  # pylint: disable=broad-except
        print(f"FAIL {case.__name__}:\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok   {case.__name__}  {time.monotonic() - start:.1f} s", flush=True)
    return True


def finish(results):
    passed, failed, skipped = (results.count(r) for r in (True, False, None))
    print(f"cases: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0 if passed else EXIT_SKIP)


def run_cases(make_machine, cases):
    """Boots one server, gives it to each case in turn, and ends the program with what they found.

    Words on the command line choose the cases that have one of them in their name.
    """
    cases = [c for c in cases if not sys.argv[1:] or any(w in c.__name__ for w in sys.argv[1:])]
    results = []
    try:
        with make_machine() as machine:
            machine.wait_ready()
            for case in cases:
                if not machine.is_running() or results[-1:] == [False] and not machine.answers():
                    left = cases[len(results):]
                    print(f"FAIL: the server is gone or stuck; not run: "
                          + ", ".join(c.__name__ for c in left))
                    results += [False] * len(left)
                    break
                results.append(run_case(case, machine))
            if machine.is_running() and False not in results:
                results.append(run_case(power_off, machine))
    except LabError as error:
        print(f"FAIL: {error}")
        results.append(False)
    finish(results)


def power_off(machine):
    """Every shared server also has to turn off in order."""
    machine.power_off()


def run_alone(cases):
    """For cases that boot servers of their own."""
    finish([run_case(case) for case in cases])
