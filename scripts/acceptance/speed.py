"""Full-size points a second, all of the way from config to simulated step, and where the time goes."""
import re
import subprocess

from common import BUILD, Unusable

# model -> (points a second on one core that are promised, that are aimed at)
POINTS = {"llama3.1-405b": (500, 1000), "deepseek-v3": (200, 300)}
TWO_CORES = 1.7
MEMORY_MB = 500
SECONDS = 20  # of one thread alone, and again in turns with two; of each model


def run(lines, quick):
    text = measured(3 if quick else SECONDS)
    for model, (least, aim) in POINTS.items():
        check_model(lines, text, model, least, aim)
    peak = float(found(r"peak resident memory: ([\d.]+) MB", text)[1])
    lines.check(f"peak resident memory, under {MEMORY_MB} MB", f"{peak:.1f} MB", peak < MEMORY_MB)


def measured(seconds):
    path = BUILD / "spillway_points"
    if not path.exists():
        raise Unusable(f"{path} is missing: it needs a release build")
    done = subprocess.run([path, "--seconds", str(seconds), "--threads", "2"], capture_output=True, text=True,
                          timeout=1800, check=False)
    if done.returncode != 0:
        raise Unusable(f"spillway_points: exit code {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def found(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise Unusable(f"spillway_points printed nothing like {pattern!r}")
    return match


def check_model(lines, text, model, least, aim):
    alone = found(rf"^{re.escape(model)} one thread: ([\d.]+) points/s \(([\d.]+) per processor second\)$", text)
    lines.check(f"{model}: points a second on one core, at least {least}, aim {aim}",
                f"{alone[1]}, {alone[2]} a second of processor time", float(alone[1]) >= least)
    for stage in re.findall(r"^  (.+?) +([\d.]+) us +([\d.]+) %$", text[alone.end():text.index(f"{model} 2 threads")],
                            re.MULTILINE):
        lines.info(f"{model}: {stage[0]}", f"{stage[1]} us, {stage[2]} %")
    both = found(rf"^{re.escape(model)} 2 threads: ([\d.]+) points/s, one thread in turn: ([\d.]+), "
                 r"ratio: ([\d.]+) \(([\d.]+) to ([\d.]+)\)$", text)
    lines.check(f"{model}: two cores over one, in turns of one run, at least {TWO_CORES}",
                f"{both[3]} ({both[4]} to {both[5]}), {both[1]} points a second", float(both[3]) >= TWO_CORES)
