# SPDX-License-Identifier: MIT
"""Trains the configurations of a list with headmix-lm, keeps a record of each, and writes the tables of a page.

The list is a text file, one statement a line; text behind a # is a comment:

  all OPTION...                 options of headmix-lm for every training
  seeds SEED...                 the seeds that are reported
  select SEED OPTION...         the seed of the trainings that choose learning rates, which is not reported, and what they
                                have before the options of the run
  family NAME RATE RATE RATE... the runs below share a learning rate: that with which the first of them validates best
  run NAME OPTION...            a configuration; `@NAME` stands for the checkpoint folder of that run, of the same seed;
                                with --lr it has that rate, with --text NAME the folder NAME in that of --text
  claim BETTER < WORSE [by MEASURE] : TEXT : PAPER
                                what a paper says of two runs, and its numbers: of their validation losses, or of a
                                measure: `one_expert`, what using one expert alone adds to it; `gate_entropy`;
                                `largest_share`, of an expert in a layer. Of a measure, WORSE can be a number

What stands between marks of the page, `<!-- trends KIND NAME... -->` and `<!-- end -->`, is written from the records:

  table, rates, claims, measures, ends FAMILY...   a row for each run, choice or claim; how flat validation curves end
  curves FAMILY                                    training losses, drawn in trends/FAMILY.svg beside the page
  experts RUN                                      typical bytes of its experts; pictures come from headmix-lm's report
  progress                                         what is done

Exit status: 0 all is done; 2 bad arguments, a bad list or page; 4 some trainings failed; 128 + N signal N.
"""

import argparse
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

SOURCE = Path(__file__).resolve().parents[2]


def refuse(text):
    print(f"trends.py: {text}", file=sys.stderr)
    sys.exit(2)


# ---- the list ----


def read_list(path):
    found = SimpleNamespace(all=[], seeds=[], select="", to_select=[], families={}, runs={}, claims=[])
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):

        def expect(what, good, word):
            if not good:
                refuse(f"{path}:{number}: expected {what}, found {word!r}")

        def a_run(name):
            expect("the name of a run above", name in found.runs, name)

        keyword, *words = line.partition("#")[0].split() or [""]
        first = words[0] if words else ""
        if keyword == "all":
            found.all += words
        elif keyword == "seeds":
            found.seeds = words
        elif keyword == "select":
            found.select, found.to_select = first, words[1:]
        elif keyword == "family":
            expect("three learning rates or more behind the family's name", len(words) > 3, " ".join(words))
            found.families[first] = SimpleNamespace(name=first, rates=words[1:], runs=[])
        elif keyword == "run":
            expect("a family before its first run", found.families, first)
            expect("a new name of lower-case letters, digits and _",
                   re.fullmatch("[a-z0-9_]+", first) and first not in found.runs, first)
            base = next((w[1:] for w in words if w.startswith("@")), None)
            if base:
                a_run(base)
            family = list(found.families.values())[-1]
            run = SimpleNamespace(name=first, family=family, options=words[1:], base=base, line=number)
            found.runs[first] = run
            family.runs.append(run)
        elif keyword == "claim":
            parts = re.fullmatch(r" *(\w+) *< *([\w.-]+)(?: +by +(\w+))? +: +(.*?) : +(.*?) *", line.partition("claim")[2])
            expect("BETTER < WORSE : TEXT : PAPER", parts, line)
            better, worse, measure, text, paper = parts.groups()
            a_run(better)
            if not measure or not re.fullmatch(r"[\d.e-]+", worse):
                a_run(worse)
            expect("one_expert, gate_entropy or largest_share behind `by`", measure in (None, *MEASURES), measure)
            found.claims.append(SimpleNamespace(better=better, worse=worse, measure=measure, text=text, paper=paper))
        else:
            expect("all, seeds, select, family, run or claim", not keyword, keyword)
    if not found.seeds or not found.select or found.select in found.seeds or not found.runs:
        refuse(f"{path}: expected seeds, a run and a seed behind `select` that is not reported")
    return found


# ---- trainings ----


class Trends:
    """The trainings of a list, identified by their words: the options of headmix-lm that say what is trained."""

    def __init__(self, arguments, trainings):
        self.o, self.list = arguments, trainings
        self.records, self.failed, self.children, self.signal = {}, set(), set(), 0
        path = Path(self.o.records)
        for line in path.read_text().splitlines() if path.exists() else []:
            record = json.loads(line, parse_float=Number)
            self.records[record["options"]] = record
        self.macs = {run.name: self.count_macs(run) for run in trainings.runs.values()}

    def count_macs(self, run):
        """Of a token; a refusal of headmix-lm's options ends the program, before anything is trained."""
        words = [w.removeprefix("@") for w in self.words(run, "1", run.family.rates[0]).split()]
        counted = subprocess.run([self.o.macs, *words], capture_output=True, text=True)
        if counted.returncode != 0:
            refuse(f"{self.o.list}:{run.line}: {counted.stderr.partition(': ')[2].strip()}")
        return counted.stdout.strip()

    def words(self, run, seed, rate):
        to_select = self.list.to_select if seed == self.list.select else []
        lr = [] if "--lr" in run.options else ["--lr", rate]
        return " ".join([*self.list.all, *to_select, *run.options, *lr, "--seed", seed])

    def find(self, run, seed, rate):
        return self.records.get(self.words(run, seed, rate)) if rate else None

    def rate_of(self, run):
        """The learning rate of a run; None where it is not chosen yet."""
        family = run.family
        if "--lr" in run.options:
            return family.rates[0]
        tried = [(self.find(family.runs[0], self.list.select, rate), rate) for rate in family.rates]
        if any(record is None for record, _ in tried):
            return None
        losses = [(value(r, "val_loss"), rate) for r, rate in tried if not math.isnan(value(r, "val_loss"))]
        return min(losses, key=lambda pair: pair[0])[1] if losses else None

    def folder(self, words, run, seed):
        return Path(self.o.work) / f"{run.name}-{seed}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"

    def ready(self):
        """What can be trained now, as words: (run, seed, rate); and how many are left, with those that wait for others."""
        can, left = {}, 0
        wanted = [f for f in self.list.families.values() if not self.o.families or f.name in self.o.families]
        asked = [(f.runs[0], self.list.select, rate) for f in wanted
                 if any("--lr" not in r.options for r in f.runs) for rate in f.rates]
        asked += [(run, seed, self.rate_of(run)) for seed in self.list.seeds for f in wanted for run in f.runs]
        for run, seed, rate in asked:
            if self.find(run, seed, rate):
                continue
            left += 1
            if run.base:
                base = self.list.runs[run.base]
                of_base = self.rate_of(base)
                words = of_base and self.words(base, seed, of_base)
                # A training interrupted while it was repeated has a checkpoint too, but no file `ended`.
                if words not in self.records or not (self.folder(words, base, seed) / "ended").exists():
                    run, rate = base, of_base
            if rate and self.words(run, seed, rate) not in self.failed:
                can[self.words(run, seed, rate)] = run, seed, rate
        return can, left

    def train(self):
        Path(self.o.work).mkdir(parents=True, exist_ok=True)
        # Trainings inherit it, so that trainings of a killed trends.py must have ended.
        self.lock = open(Path(self.o.work) / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.stop)
        can, left = self.ready()
        while can and not self.signal:
            with ThreadPoolExecutor(self.o.jobs) as pool:
                list(pool.map(lambda item: self.train_one(item[0], *item[1]), can.items()))
            can, left = self.ready()
        if self.signal:
            return 128 + self.signal
        print(f"{left} trainings are left")
        return 4 if self.failed else 0

    def stop(self, number, _):
        """Trainings save checkpoints and end."""
        self.signal = number
        for child in list(self.children):
            child.terminate()

    def train_one(self, words, run, seed, rate):
        if self.signal:
            return
        folder = self.folder(words, run, seed)
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        (folder / "ended").unlink(missing_ok=True)
        options = words.split()
        if run.base:
            base = self.list.runs[run.base]
            of_base = self.folder(self.words(base, seed, self.rate_of(base)), base, seed) / "checkpoint"
            options = [str(of_base) if w.startswith("@") else w for w in options]
        text = Path(self.o.text)
        if "--text" in run.options:
            text /= run.options[run.options.index("--text") + 1]
        print(f"begins: {words}", flush=True)
        with open(folder / "err", "a") as err:
            child = subprocess.Popen(
                [self.o.program, *options, "--text", text / "train", "--validation-text", text / "validation", "--threads",
                 "1", "--sample", "0", "--progress", "off", "--checkpoint", folder / "checkpoint", "--resume", "--report",
                 folder / "report"], stdout=subprocess.PIPE, stderr=err, text=True, pass_fds=[self.lock.fileno()])
        self.children.add(child)
        if self.signal:  # it came before the child was known
            child.terminate()
        out = child.communicate()[0]
        self.children.discard(child)
        if child.returncode not in (0, 3):  # 3: a loss that is not finite, which is a result
            if not self.signal:
                self.failed.add(words)
                print(f"trends.py: {run.name}, seed {seed}: exit status {child.returncode}; see {folder / 'err'}",
                      file=sys.stderr)
            return
        (folder / "ended").touch()
        # A record has no paths of this machine.
        last = out.rstrip("\n").rpartition("\n")[2].replace(f"{self.o.text.rstrip('/')}/", "")
        results = json.loads(last, parse_float=Number)
        if before := self.records.get(words):  # trained again for its checkpoint
            if before["results"]["val_loss"] != results["val_loss"]:
                print(f"trends.py: {run.name}, seed {seed}: expected the loss of its record, "
                      f"{before['results']['val_loss']}, found {results['val_loss']}", file=sys.stderr)
        else:
            self.records[words] = self.add_record(words, run, results, json.loads((folder / "report/report.json").read_text()))
        print(f"{run.name} {seed}: {results['val_loss']}, seed {seed}, lr {results['lr']}", flush=True)
        if all(r.base != run.name for r in self.list.runs.values()):
            shutil.rmtree(folder / "checkpoint")

    def add_record(self, words, run, results, report):
        losses = [loss for _, loss in report["train_curve"]]
        part = max(1, math.ceil(len(losses) / 40))
        curve = [[min(i + part, len(losses)), round(mean(losses[i:i + part]), 4)] for i in range(0, len(losses), part)]
        cpu = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
        record = {"name": run.name, "family": run.family.name, "options": words, "commit": self.o.commit,
                  "arch": self.o.arch, "machine": cpu[1] if cpu else "unknown", "side_by_side": self.o.jobs,
                  "train_curve": curve}
        for key in ("validation_curve", "expert_loads", "ffn_expert_loads", "expert_information", "ffn_expert_information"):
            record[key] = report.get(key, [])
        record["results"] = results
        with open(self.o.records, "ab", buffering=0) as file:  # in one piece
            file.write((json.dumps(record) + "\n").encode())
        return record


# ---- the page ----


class Number(float):
    """A number of JSON, printed as it is written there."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def value(record, key):
    x = record["results"].get(key)
    return math.nan if x is None else float(x)


def mean(x):
    return sum(x) / len(x)


def deviation(x):
    return math.sqrt(sum((v - mean(x)) ** 2 for v in x) / (len(x) - 1))


def half_interval(x):
    """Half the width of the interval that has the mean with 95 % (Student)."""
    quantiles = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
    return quantiles[min(len(x) - 2, len(quantiles) - 1)] * deviation(x) / math.sqrt(len(x))


def fixed(x, digits):
    return f"{x:.{digits}f}" if math.isfinite(x) else "not finite"


def decimal(x, digits):
    s = f"{x:.{digits}f}"
    s = s.rstrip("0").rstrip(".") if "." in s else s
    return "0" if s == "-0" else s


def largest_share(record):
    """The largest share of an expert in any layer, of 1."""
    return max((s / sum(shares) for shares in record["expert_loads"] for s in shares), default=math.nan)


def least_load(record):
    """The share of the least used expert or routed head of all layers, where 1 is an even one; or None."""
    layers = record["expert_loads"] + record["ffn_expert_loads"]
    if record["results"]["attention"] == "moh":  # without shared heads
        layers = [[s for s in shares if s <= 1 - 1e-9] for shares in layers]
    return min((min(shares) / mean(shares) for shares in layers if shares), default=None)


MEASURES = {
    "one_expert": lambda r: value(r, "one_expert_val_loss") - value(r, "val_loss"),
    "gate_entropy": lambda r: value(r, "gate_entropy"),
    "largest_share": largest_share,
}


def compare(better, worse):
    """A claim that the first numbers are smaller, seed by seed: the mean difference with half its interval; a verdict."""
    d = [w - b for b, w in zip(better, worse) if not math.isnan(b) and not math.isnan(w)]
    if not d:
        return "not trained yet", "not decided: fewer than 3 seeds"
    half = half_interval(d) if len(d) > 1 else math.nan
    found = fixed(mean(d), 4) + (f" ± {fixed(half, 4)}" if len(d) > 1 else "")
    verdict = "holds" if mean(d) - half > 0 else "does not hold" if mean(d) + half < 0 else "not decided"
    return (f"{found} ({len(d)} seed{'s' * (len(d) > 1)})",
            verdict if len(d) >= 3 else "not decided: fewer than 3 seeds")


def table_of(*rows):
    return "".join(f"| {' | '.join(row)} |\n" + (i == 0) * ("|" + "---|" * len(row) + "\n") for i, row in enumerate(rows))


class Page:
    def __init__(self, trends):
        self.trends, self.list, self.path = trends, trends.list, Path(trends.o.page)

    def write(self):
        def content(mark):
            kind, *names = mark[1].split()
            known = self.list.runs if kind == "experts" else self.list.families
            for name in names:
                if name not in known:
                    refuse(f"{self.path}: expected the name of a {'run' if kind == 'experts' else 'family'}, found '{name}'")
            if kind not in ("table", "rates", "claims", "measures", "ends", "curves", "experts", "progress"):
                refuse(f"{self.path}: expected table, rates, claims, measures, ends, curves, experts or progress behind "
                       f"`<!-- trends`, found '{kind}'")
            runs = [self.list.runs[names[0]]] if kind == "experts" else [r for n in names for r in known[n].runs]
            runs.sort(key=lambda run: run.line)
            return f"{mark[0]}\n{getattr(self, kind)(runs)}\n<!-- end -->\n"

        text = self.path.read_text()
        marks = re.compile(r"(?:<!-- trends (.*?) -->\n)(?:.*?)<!-- end -->\n", re.S)
        self.path.write_text(marks.sub(lambda m: content((m[0].partition("\n")[0] + "\n", m[1])), text))

    def of(self, run):
        """Records of the reported seeds; None where there is none."""
        return [self.trends.find(run, seed, self.trends.rate_of(run)) for seed in self.list.seeds]

    def by_seed(self, run, measure):
        return [measure(r) if r else math.nan for r in self.of(run)]

    def table(self, runs):
        rows = [("run", "validation loss: mean (each seed)", "deviation", "parameters", "multiply-accumulates of a token",
                 "least used expert or head", "entropy of gates", "tokens/s", "learning rate")]
        for run in runs:
            records = self.of(run)
            done = [r for r in records if r]
            losses = [value(r, "val_loss") for r in done]
            each = " ".join(fixed(value(r, "val_loss"), 4) if r else "-" for r in records)
            loads = [x for x in map(least_load, done) if x is not None]
            entropies = [x for r in done if not math.isnan(x := value(r, "gate_entropy"))]
            of_all = done[-1]["results"] if done else {}
            rows.append((
                f"`{run.name}`", f"{fixed(mean(losses), 4)} ({each})" if done else "not trained yet",
                fixed(deviation(losses), 4) if len(done) > 1 else "-", str(of_all.get("parameters", "-")),
                self.trends.macs[run.name], fixed(mean(loads), 2) if loads else "",
                fixed(mean(entropies), 3) if entropies else "",
                fixed(mean([value(r, "tokens_per_s") for r in done]), 0) if done else "-", str(of_all.get("lr", "-"))))
        return table_of(*rows)

    def rates(self, runs):
        rows = [("family", "with the run", f"validation loss at each rate, seed {self.list.select}")]
        for run in (r for r in runs if r is r.family.runs[0]):
            tried = []
            for rate in run.family.rates:
                record = self.trends.find(run, self.list.select, rate)
                bold = "**" * (rate == self.trends.rate_of(run))
                tried.append(f"{bold}{rate}: {fixed(value(record, 'val_loss'), 4) if record else 'not trained yet'}{bold}")
            rows.append((run.family.name, f"`{run.name}`", ", ".join(tried)))
        return table_of(*rows)

    def claims(self, runs):
        rows = [("claim", "the paper", "here: difference of the validation losses, nats per byte", "verdict")]
        for claim in (c for c in self.list.claims if not c.measure and self.list.runs[c.better] in runs):
            losses = [self.by_seed(self.list.runs[name], lambda r: value(r, "val_loss")) for name in (claim.better, claim.worse)]
            rows.append((f"{claim.text}: `{claim.better}` < `{claim.worse}`", claim.paper, *compare(*losses)))
        return table_of(*rows)

    def measures(self, runs):
        rows = [("claim", "the paper", "here: both means", "their difference", "verdict")]
        for claim in (c for c in self.list.claims if c.measure and self.list.runs[c.better] in runs):

            def mean_of(x):
                known = [v for v in x if not math.isnan(v)]
                return fixed(mean(known), 4) if known else "not trained yet"

            better, worse = self.by_seed(self.list.runs[claim.better], MEASURES[claim.measure]), self.list.runs.get(claim.worse)
            other = self.by_seed(worse, MEASURES[claim.measure]) if worse else [float(claim.worse)] * len(better)
            rows.append((f"{claim.text}: `{claim.measure}` of `{claim.better}` < {f'`{claim.worse}`' if worse else claim.worse}",
                         claim.paper, f"{mean_of(better)} against {mean_of(other) if worse else claim.worse}",
                         *compare(better, other)))
        return table_of(*rows)

    def ends(self, runs):
        rows = [("run", "steps", "fall of the validation loss in them, per 1000 steps: mean of the seeds")]
        for run in runs:
            curves = [r["validation_curve"][-2:] for r in self.of(run) if r]
            if any(len(curve) < 2 for curve in curves):  # validated once
                continue
            falls = [(a[1] - b[1]) / (b[0] - a[0]) * 1000 for a, b in curves]
            rows.append((f"`{run.name}`", f"{curves[0][0][0]} to {curves[0][1][0]}" if curves else "",
                         fixed(mean(falls), 4) if falls else "not trained yet"))
        return table_of(*rows)

    def progress(self, _):
        families, runs = self.list.families.values(), self.list.runs.values()
        choices = [self.trends.find(f.runs[0], self.list.select, rate) for f in families for rate in f.rates]
        rows = [r for run in runs for r in self.of(run)]
        chosen, done = [r for r in choices if r], [r for r in rows if r]
        bytes_of = lambda r: r.get("planned_steps", r["steps"]) * r["batch"] * r["context"]
        seconds = sum(bytes_of(r["results"]) / value(r, "tokens_per_s") for r in chosen + done)
        return (f"{len(chosen)} of {len(choices)} trainings that choose learning rates and {len(done)} of {len(rows)} "
                f"reported ones are done; they took {seconds / 3600:.1f} hours of one core, without validations.\n")

    def experts(self, runs):
        """Of the first seed that is done."""
        run = runs[0]
        record = next((r for r in self.of(run) if r), None)
        if not record:
            return "Not trained yet.\n"
        results, text = record["results"], ""
        folder = self.trends.folder(record["options"], run, str(results["seed"])) / "report"
        for which in ("", "ffn_"):
            if not record[f"{which}expert_loads"]:
                continue
            name = f"trends/{run.name}-{which.replace('_', '-')}experts.svg"
            if (folder / f"{which}experts.svg").exists():
                (self.path.parent / "trends").mkdir(exist_ok=True)
                shutil.copy(folder / f"{which}experts.svg", self.path.parent / name)
            rows = [("layer", ("heads" if results["attention"] == "moh" and not which else "experts") +
                     " and the bytes that they have most above chance (pointwise mutual information)")]
            for layer, typical in enumerate(results.get(f"{which}typical_bytes", [])):
                shown = [f"{e}: {as_code(s)}" for e, s in enumerate(typical) if s]
                rows.append((str(layer), " ".join(shown[:8]) + " ..." * (len(shown) > 8)))
            text += f"![use of the experts of {run.name}, seed {results['seed']}]({name})\n\n{table_of(*rows)}"
        return text

    def curves(self, runs):
        """The training loss, of the seeds that are done, in means over a fortieth of the steps; the first quarter is left
        out. A seed has the same batches in all runs, so that differences are clearer than the curves."""
        curves = {}
        for run in runs:
            of_seeds = [r["train_curve"] for r in self.of(run) if r]
            points = [(p[0][0], mean([loss for _, loss in p])) for p in zip(*of_seeds)]
            if points:
                curves[run.name] = [p for p in points if p[0] >= points[-1][0] / 4]
        if not curves:
            return "Not trained yet.\n"
        family = runs[0].family.name
        picture = self.path.parent / f"trends/{family}.svg"
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(draw_curves(f"Training loss, nats per byte, mean of the seeds: {family}", curves))
        return f"![training losses of the family {family}](trends/{family}.svg)\n"


def as_code(text):
    """A string of JSON as code in a cell of a table."""
    escape = lambda c: f"\\u{ord(c):04x}" if c < " " or c in "`\ufffd" else "\\" * (c in '"\\|') + c
    return f'`"{"".join(map(escape, text))}"`'


def ticks(low, high, count):
    """Round numbers, 1, 2 or 5 times a power of ten apart, within [low, high]."""
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    apart = power * next(step for step, below in ((1, 1.5), (2, 3.5), (5, 7.5), (10, math.inf)) if rough / power < below)
    first, last = math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9)
    return [i * apart for i in range(first, last + 1)]


def draw_curves(title, curves):
    """On the card that headmix-lm draws on."""
    card = re.search(r"<style>.*?</style>\n", (SOURCE / "examples/language_model/svg.cpp").read_text(), re.S)[0]
    colours = "#2f6fbf #c8501e #2e8b57 #8a5fbf #b58900 #d33682 #5b7083 #7f4f24".split()
    losses, last = [y for c in curves.values() for _, y in c], max(c[-1][0] for c in curves.values())
    low, high, left, right, top, bottom = min(losses), max(losses), 64, 736, 48, 376
    margin = 0.05 * max(high - low, 0.01)
    height = 430 + 18 * ((len(curves) + 2) // 3)
    x = lambda step: left + (right - left) * (step - last / 4) / (last * 3 / 4)
    y = lambda loss: bottom + (top - bottom) * (loss - low + margin) / (high - low + 2 * margin)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" viewBox="0 0 760 {height}" role="img">\n'
           f"<title>{title}</title>\n{card}"
           f'<rect x="0.5" y="0.5" width="759" height="{height - 1}" class="card" rx="6"/>\n']

    def text(at, below, s, anchor="start", attributes=""):
        out.append(f'<text x="{decimal(at, 2)}" y="{decimal(below, 2)}" text-anchor="{anchor}" {attributes}>{s}</text>\n')

    def line(x1, y1, x2, y2, attributes):
        out.append("<line " + " ".join(f'{k}="{decimal(v, 2)}"' for k, v in zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2))) +
                   f" {attributes}/>\n")

    text(18, 28, title, attributes='class="title"')
    for t in ticks(low, high, 6):
        line(left, y(t), right, y(t), 'class="grid"')
        text(left - 8, y(t) + 4, decimal(t, 4), "end")
    for t in ticks(last / 4, last, 6):
        text(x(t), bottom + 20, decimal(t, 0), "middle")
    text((left + right) / 2, bottom + 40, "steps", "middle")
    line(left, top, left, bottom, 'class="axis"')
    line(left, bottom, right, bottom, 'class="axis"')
    for i, (name, points) in enumerate(curves.items()):
        dashes = "" if i < len(colours) else ' stroke-dasharray="5 3"'
        stroke = f'fill="none" stroke-width="1.8" stroke="{colours[i % len(colours)]}"{dashes}'
        drawn = "".join(f"{decimal(x(step), 1)},{decimal(y(loss), 1)} " for step, loss in points)
        out.append(f'<polyline {stroke} points="{drawn}"/>\n')
        at, below = left + 224 * (i % 3), bottom + 64 + 18 * (i // 3)
        line(at, below - 4, at + 20, below - 4, stroke)
        text(at + 26, below, name)
    return "".join(out) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", metavar="LIST")
    parser.add_argument("--program", required=True, help="headmix-lm")
    parser.add_argument("--macs", required=True, help="headmix-trends-macs")
    parser.add_argument("--text", required=True, help="has the folders train and validation")
    parser.add_argument("--work", required=True, help="keeps checkpoints and reports")
    parser.add_argument("--records", required=True, help="a line of JSON for each training")
    parser.add_argument("--page", help="whose tables are written")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time, of one thread; 0: say what is left")
    parser.add_argument("--families", type=lambda s: s.split(","), help="train these alone, and what they begin with")
    parser.add_argument("--commit", help="of headmix-lm, if not that of the list's repository")
    parser.add_argument("--arch", default="", help="the instruction set of headmix-lm, for the records")
    arguments = parser.parse_args()
    trainings = read_list(arguments.list)
    for name in arguments.families or []:
        if name not in trainings.families:
            refuse(f"--families: expected families of the list, found '{name}'")
    if not arguments.commit:
        git = subprocess.run(["git", "-C", Path(arguments.list).resolve().parent, "rev-parse", "--short", "HEAD"],
                             capture_output=True, text=True)
        arguments.commit = git.stdout.strip() or "unknown"
    trends = Trends(arguments, trainings)
    status = 0
    if arguments.jobs == 0:
        can, left = trends.ready()
        print(*can, f"{left} trainings are left", sep="\n")
    else:
        status = trends.train()
    if arguments.page:
        Page(trends).write()
    sys.exit(status)


main()
