"""Every rule of latency hiding changes a schedule; 10,000 random schedules keep their promises."""
from common import check_tests, spillway_json, unit_tests

PROGRAMS = 10_000


def check_rules(lines):
    rules = spillway_json("list", "lhs-rules", "--json")
    records = {test["name"]: test for test in unit_tests("offload_tests", "LhsRulesTest.*")}
    wanted = ("EveryRuleHasACase", "SwitchingARuleChangesTheOrder", "RulesThatNeedAHintNeverDecideWithoutOne")
    passed = all(name in records and not records[name].get("failures") for name in wanted)
    changed = int(records.get(wanted[1], {}).get("change_the_schedule", 0))
    off = sum(rule["default"] == "off" for rule in rules)
    lines.check("switching a rule of the LHS changes the schedule of its minimal program",
                f"{changed} of {len(rules)} rules and settings, {off} of them off by default",
                passed and changed == len(rules))
    lines.info("rules that need a hint no program carries", ", ".join(rule["name"] for rule in rules if rule["needs"]))


def check_random(lines):
    records = unit_tests("offload_tests", "*RandomSchedules.*")
    failures = [failure["failure"][:300] for test in records for failure in test.get("failures", [])]
    programs = sum(int(test.get("schedules", 0)) for test in records)
    seconds = sum(float(test["time"].rstrip("s")) for test in records)
    figure = f"{programs} random programs x schedules in {seconds:.0f} s, {len(failures)} failures"
    lines.check("race check, memory bound and dependency order hold on random programs",
                "; ".join([figure, *failures[:3]]), not failures and programs >= PROGRAMS)


def run(lines, quick):
    check_rules(lines)
    check_random(lines)
    check_tests(lines, "limits of what is open", "offload_tests", "LhsLimitsTest.*")
    check_tests(lines, "latency models", "offload_tests", "LatencyModelTest.*")
    check_tests(lines, "a profile fed back in", "sweeps_tests", "ProfileTest.*")
