"""The planner's figures: tables, what each was to reach, and bench/out/plan.json.

python bench/bench_plan.py [--build build/release] [PART [TRACE.json …]]

PART is one of daly, costs, models, clusters, simulated, hazard, deadlines, zones, types, speed, or of the published
tables' rings, prior, transfers, studies; all of them otherwise. Traces are replayed too.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# name, what it is, at most or at least, the aim, shown as
AIMS = [
    ("cost_error_on_demand", "ICAC'19 on-demand rows, worst error", "<=", 0.01, "{:.1%}"),
    ("cost_error_transient", "ICAC'19 transient rows, worst error", "<=", 0.03, "{:.1%}"),
    ("step_error_k80", "step time on K80, mean error of models left out", "<=", 0.05, "{:.2%}"),
    ("step_error_p100", "step time on P100, mean error of models left out", "<=", 0.07, "{:.2%}"),
    ("checkpoint_error", "checkpoint time, mean error of rows left out", "<=", 0.04, "{:.2%}"),
    ("cluster_error", "cluster speed, 5 to 8 workers from 1 to 4, mean error", "<=", 0.10, "{:.1%}"),
    ("cluster_held", "cluster speed, measured points in their interval", ">=", 0.90, "{:.1%}"),
    ("ring_error", "all-reduce, 8 and 16 GPUs from 1 and 4, families left out, mean error", "<=", 0.035, "{:.1%}"),
    ("ring_held", "all-reduce, published points in their interval", ">=", 0.90, "{:.1%}"),
    ("transfer_error", "V100 to A100 by peak rates, families left out, mean error", "<=", 0.15, "{:.1%}"),
    ("transfer_held", "V100 to A100, speeds in their interval", ">=", 0.90, "{:.1%}"),
    ("prior_held", "8 GPUs from one alone, published points in their interval", ">=", 0.90, "{:.1%}"),
    ("formula_error_worst", "formula against simulation, worst error", "<=", 0.02, "{:.2%}"),
    ("interval_held_least", "runs in the 90 % interval, least of all cases", ">=", 0.85, "{:.1%}"),
    ("interval_held_most", "runs in the 90 % interval, most of all cases", "<=", 0.95, "{:.1%}"),
    ("deadlines_kept", "deadlines kept by uniform progress", ">=", 0.99, "{:.1%}"),
    ("above_foresight", "cost above a schedule that knew the trace", "<=", 0.25, "{:.1%}"),
    ("zones_over_best_zone", "nine zones over the best single zone, usd", "<=", 0.95, "{:.2f}"),
    ("zones_kept", "deadlines kept over nine zones", ">=", 0.999, "{:.2%}"),
    ("types_over_best_type", "three types over the best single type, usd", "<=", 0.95, "{:.2f}"),
    ("types_kept", "deadlines kept over three types", ">=", 0.999, "{:.2%}"),
    ("study_held", "lifetimes of one study on another's, shares in their interval", ">=", 0.90, "{:.1%}"),
    ("price_20000_cpu_s", "20,000 configurations with intervals, core seconds", "<=", 2.0, "{:.2f}"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("traces", nargs="*")
    options = parser.parse_args()
    programs = ["bench/bench_plan_tables", "bench/bench_plan"]
    subprocess.run(["ninja", "-C", options.build, *programs], check=True, stdout=subprocess.DEVNULL)
    figures = {}
    for program in programs:
        traces = options.traces if program == programs[-1] else []
        command = [str(Path(options.build) / program), options.part, *traces]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        *tables, last = done.stdout.rstrip().split("\n")
        figures.update(json.loads(last))
        print("\n".join(tables).rstrip())

    print("\nAims")
    for name, what, way, aim, shown in AIMS:
        if name not in figures:
            continue
        kept = figures[name] <= aim if way == "<=" else figures[name] >= aim
        print(f"  {'kept  ' if kept else 'missed'}  {what}: {shown.format(figures[name])} ({way} {shown.format(aim)})")
    if not options.part:
        out = ROOT / "bench" / "out"
        out.mkdir(parents=True, exist_ok=True)
        (out / "plan.json").write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
