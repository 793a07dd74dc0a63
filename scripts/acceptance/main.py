"""Runs the groups of one stage in order and sums up. Called by scripts/acceptance.sh."""
import argparse
import sys
import time
import traceback

import aarch64
import bad_input
import bench
import capacity
import cuda
import describe
import explain
import fit
import gpu_check
import grouped
import identity
import idle
import kill
import large
import laws
import lhs
import link
import machines
import measured
import moe_describe
import moe_identity
import moe_plan
import pipelining
import plan
import predictions
import proxy
import published
import quickstart
import race
import readme
import sensitivity
import speed
import targets
import tests
import validate
from common import Lines, Skip, Unusable

# Groups in order; "idle" and "bench" read what "quickstart" and "link" measured.
STAGES = {
    2: [quickstart, describe, identity, race, plan, link, idle, published, bench, kill, bad_input,
        large, aarch64, tests, readme],
    3: [quickstart, moe_describe, moe_plan, moe_identity, capacity, proxy, grouped, tests, readme],
    4: [fit, lhs, laws, pipelining, machines, predictions, measured, speed, explain, sensitivity, validate],
    5: [cuda, gpu_check, targets],
}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/acceptance.sh")
    parser.add_argument("stage", type=int, choices=sorted(STAGES))
    parser.add_argument("--only", action="append", metavar="GROUP", help="only this group")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--list", action="store_true", help="list the groups and stop")
    options = parser.parse_args()
    known = [group.__name__ for group in STAGES[options.stage]]
    for name in options.only or []:
        if name not in known:
            parser.error(f"--only: found {name!r}, expected one of {', '.join(known)}")
    return options


def run_group(group, lines, quick):
    print(f"\n== {group.__name__}: {group.__doc__.splitlines()[0]}", flush=True)
    begin = time.monotonic()
    try:
        group.run(lines, quick)
    except Skip as reason:
        lines.info("left out", str(reason))
    except Unusable as error:
        lines.check("the group runs to its end", str(error), False)
    except Exception:  # a mistake of these scripts is no pass either
        lines.check("the group runs to its end", traceback.format_exc(limit=-3), False)
    print(f"   ({time.monotonic() - begin:.0f} s)", flush=True)


def main():
    options = parse_arguments()
    groups = [group for group in STAGES[options.stage]
              if not options.only or group.__name__ in options.only]
    if options.list:
        for group in groups:
            print(f"{group.__name__:<12}{group.__doc__.splitlines()[0]}")
        return 0
    lines = Lines()
    for group in groups:
        run_group(group, lines, options.quick)
    print(f"\n{lines.passed} passed, {len(lines.failed)} failed, {lines.infos} for information")
    for text in lines.failed:
        print(f"FAIL  {text}")
    return 1 if lines.failed else 0


sys.exit(main())
