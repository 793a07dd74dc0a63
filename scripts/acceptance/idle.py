"""The compute lane is outside ops and waits for less than 2 % of a step."""
from common import WORK, Unusable, percent, rows_of

LIMIT = 0.02


def run(lines, quick):
    found = False
    for name in ("quickstart", "link", "link8"):
        for row in rows_of(WORK / name):
            if row["kind"] != "measured" or row["status"] != "ok":
                continue
            found = True
            shares = [step["idle_seconds"] / step["seconds"] for step in row["steps"]]
            median = row["compute_lane"]["idle_seconds"] / row["step_seconds"]["median"]
            lines.check(f"{name}: {row['label']}", f"{percent(median)} (steps {percent(min(shares))} to "
                        f"{percent(max(shares))})", median < LIMIT)
    if not found:
        raise Unusable("no measured row: run the groups quickstart or link first")
