"""From studies to the figures of a paper: ratios with intervals, crossing points, and a heat map."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="From studies to the figures of a paper")

with app.setup:
    import functools
    import itertools
    import math
    import pathlib
    import tomllib

    import ceasefire
    import marimo as mo
    import matplotlib
    import numpy
    from matplotlib.figure import Figure

    # The studies are beside the notebook.
    STUDIES = pathlib.Path(__file__).resolve().parent
    # The panels of figure 1: an experiment, a figure of its runs, and the words for it.
    PANELS = [
        ("mmap-read", "elapsed_s", "elapsed time"),
        ("mmap-read", "interrupts_per_s", "interrupts a second"),
        ("migrate", "operations_per_s", "pages migrated a second"),
    ]
    BASELINE = "per-page"
    # Of M. Okabe and K. Ito's colours, which colour-blind readers tell apart. Marks and dashes differ too.
    BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#555555"
    CURVES = {
        "batched": {"label": "interrupts (batched)", "color": BLUE, "marker": "o", "linestyle": "-"},
        "broadcast": {"label": "broadcasts", "color": ORANGE, "marker": "s", "linestyle": "--"},
    }
    # The same data give the same bytes: no random names, no dates. Type 42 is what publishers accept.
    matplotlib.rcParams.update(
        {
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.size": 8,
            "legend.frameon": False,
            "pdf.fonttype": 42,
            "svg.hashsalt": "ceasefire",
        }
    )


@app.function
def options(given):
    """The options of the command line, checked."""
    chosen = {"folder": "paper", "scale": 1.0, "draws": 64, "seeds": 8}
    for name, value in given.items():
        if name not in chosen:
            raise ceasefire.InputError(f"--{name}: unknown option; must be one of --{', --'.join(chosen)}")
        kind = type(chosen[name])
        try:
            chosen[name] = kind(value)
        except (TypeError, ValueError):
            raise ceasefire.InputError(f"--{name} {value}: must be a number") from None
        if kind is not str and not (chosen[name] == value and value > 0):
            raise ceasefire.InputError(f"--{name} {value}: must be {'a whole number ' if kind is int else ''}above 0")
    return chosen


@app.function
def study(name, scale=1.0, draws=None, seeds=None):
    """A study file's content: its scale times `scale`, with at most so many draws and seeds."""
    content = tomllib.loads((STUDIES / f"{name}.toml").read_text())
    content["parameters"]["scale"] *= scale
    for key, most in [("draws", draws), ("seeds", seeds)]:
        if most is not None and key in content:
            content[key] = min(content[key], int(most))
    return content


@app.function
def swept(content, folder):
    """The rows of a study. Points that the folder has are not run again."""
    points = ceasefire.Study(content)
    folder, last = pathlib.Path(folder), None

    def tell(progress):
        nonlocal last
        last = progress
        spinner.update(subtitle=str(progress))

    folder.parent.mkdir(parents=True, exist_ok=True)
    with mo.status.spinner(title=folder.name) as spinner:
        table = ceasefire.sweep(points, folder, progress=tell)
    print(f"{folder.name}: {last.all} points, {last.done} run now, {last.failed} failed")
    # The folder may have points of other sizes too.
    names = {points.point(number).id for number in range(len(points))}
    return [row for row in table.to_pylist() if row["point"] in names and row["error"] is None]


@app.function
def ratios(rows, figure, baseline=BASELINE):
    """The rows of the other mechanisms, with the ratio of a figure to the baseline's in the same case."""
    bases = {row["case"]: row[figure] for row in rows if row["mechanism"] == baseline}
    return [
        {**row, "ratio": row[figure] / bases[row["case"]]}
        for row in rows
        if row["mechanism"] != baseline and bases.get(row["case"])
    ]


@app.function
def grouped(rows, keys, value):
    """The values of all rows with the same keys, in the order of the keys."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row[value])
    return dict(sorted(groups.items()))


@app.function
def interval(values):
    """The ends of the interval in which nine of ten values lie, with their median between them."""
    return [float(end) for end in numpy.quantile(values, [0.05, 0.5, 0.95])]


@app.function
def published(experiment, machine):
    """The paper's figures for a built-in experiment on a machine, and the two mechanisms that it compares."""
    for found in ceasefire.experiments():
        if found.name == experiment:
            return [row for row in found.published.to_pylist() if row["machine"] == machine], found.mechanisms[:2]
    return [], []


@app.function
def crossings(places, first, second):
    """The places at which two curves cross, between points by interpolation along the logarithm of the place.

    Curves that touch do not cross. If they lie on each other before they part on the other side, they cross in the
    middle.
    """
    logs = [math.log2(place) for place in places]
    apart = [(log, one - other) for log, one, other in zip(logs, first, second, strict=True)]
    found = []
    for (left, before), (right, after) in itertools.pairwise(point for point in apart if point[1] != 0):
        if before * after < 0:
            level = [log for log, height in apart if left < log < right and height == 0]
            on_the_way = left + (right - left) * before / (before - after)
            found.append(2 ** ((level[0] + level[-1]) / 2 if level else on_the_way))
    return found


@app.function
def saved(figure, folder, name):
    """Writes a figure as SVG and as PDF. The SVG is returned."""
    folder = pathlib.Path(folder)
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return folder / f"{name}.svg"


@app.function
def panel(experiment, machine, figure, machines, seeds):
    """The lines of a panel of figure 1, by mechanism."""
    rows, compared = published(experiment, machine)
    paper = [row["after"] / row["before"] for row in rows if row["figure"] == figure and row["threads"] is None]
    lines = {}
    for key, studied in [("machines", machines), ("seeds", seeds)]:
        here = [row for row in studied if row["machine"] == machine]
        for (mechanism,), values in grouped(ratios(here, figure), ["mechanism"], "ratio").items():
            is_paper = [BASELINE, mechanism] == compared and paper
            lines.setdefault(mechanism, {"published": paper[0] if is_paper else None})[key] = values
    return lines


@app.function
def panels(results):
    """The panels of figure 1, by title."""
    found = {}
    for experiment, figure, words in PANELS:
        machines, seeds = (results(f"{experiment}-{kind}") for kind in ("machines", "seeds"))
        for machine in sorted({row["machine"] for row in seeds}):
            found[f"{experiment} on {machine}: {words}"] = panel(experiment, machine, figure, machines, seeds)
    return found


@app.function
def sentence(line):
    """A sentence on a line of figure 1."""
    low, _, high = interval(line["machines"])
    said = f"{float(numpy.median(line['seeds'])):.3g}; nine of ten drawn machines have {low:.3g} to {high:.3g}"
    paper = line["published"]
    if paper is None:
        return f"{said}; no figure is published."
    return f"{said}; the published {paper:.3g} is {'below' if paper < low else 'above' if paper > high else 'in'} that."


@app.function
def draw_ratios(panels):
    """Figure 1: the ratios to the baseline, from panels by title."""
    figure = Figure(figsize=(7, 2.4), layout="constrained")
    marks = {}
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for place, line in enumerate(lines.values()):
            low, middle, high = interval(line["machines"])
            marks["9 of 10 drawn machines, and their median"] = axes.barh(
                place, high - low, 0.3, low, color="#c8c8c8", edgecolor=GREY, linewidth=0.6
            )
            axes.plot([middle, middle], [place - 0.15, place + 0.15], color=GREY, linewidth=1.2)
            seeds, median = line["seeds"], float(numpy.median(line["seeds"]))
            axes.plot([min(seeds), max(seeds)], [place, place], color=BLUE, linewidth=1.2)
            (marks["the file's machine: median and range of seeds"],) = axes.plot(
                median, place, "o", color=BLUE, markersize=4
            )
            axes.annotate(f"{median:.3g}", (low, place + 0.2), va="bottom", color=BLUE)
            if line["published"] is not None:
                (marks["published"],) = axes.plot(
                    line["published"], place, "D", color=ORANGE, markerfacecolor="none", markersize=6
                )
        axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
        axes.set_title(title.replace(": ", "\n"), fontsize=8)
        axes.set_xlabel(f"ratio to {BASELINE}")
        axes.set_xlim(left=0)
        axes.set_yticks(range(len(lines)), list(lines))
        axes.set_ylim(-0.5, len(lines) - 0.3)
    figure.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=3)
    return figure


@app.function
def curves(rows):
    """The curves of figure 2, by machine and listing: by mechanism, threads and seed, the loops per second."""
    panels = {}
    for row in sorted(rows, key=lambda row: (row["machine"], row["lru_drain"], row["mechanism"], row["threads"])):
        lines = panels.setdefault((row["machine"], row["lru_drain"]), {})
        lines.setdefault(row["mechanism"], {}).setdefault(row["threads"], {})[row["seed"]] = row["operations_per_s"]
    return panels


@app.function
def crossing(lines):
    """The places at which the medians of two mechanisms cross, those at which single seeds do, and a sentence."""
    (first, ours), (second, theirs) = lines.items()
    threads = sorted(ours.keys() & theirs.keys())
    medians = [[float(numpy.median([*of[one].values()])) for one in threads] for of in (ours, theirs)]
    places = crossings(threads, *medians)
    seeds = set.intersection(*(set(of[one]) for of in (ours, theirs) for one in threads))
    single = [
        place
        for seed in sorted(seeds)
        for place in crossings(threads, *([of[one][seed] for one in threads] for of in (ours, theirs)))
    ]
    if places:
        said = f"cross at {' and '.join(f'{place:.3g}' for place in places)} threads"
        return places, single, f"{said} (single seeds: {min(single):.3g} to {max(single):.3g})" if single else said
    if medians[0] == medians[1]:
        return places, single, "are the same"
    higher = first if sum(medians[0]) > sum(medians[1]) else second
    return places, single, f"do not cross: {higher} is never slower"


@app.function
def draw_curves(panels):
    """Figure 2: loops per second by the number of threads."""
    machines, drains = (sorted({key[part] for key in panels}) for part in (0, 1))
    figure = Figure(figsize=(7, 1 + 2.2 * len(machines)), layout="constrained")
    grid = figure.subplots(len(machines), len(drains), squeeze=False, sharex=True, sharey=True)
    marks = {}
    for (machine, drain), lines in panels.items():
        axes = grid[machines.index(machine)][drains.index(drain)]
        paper, compared = published("tlb-flush2", machine)
        for mechanism, by_threads in lines.items():
            style = CURVES[mechanism]
            threads = list(by_threads)
            low, middle, high = (
                [float(of([*values.values()])) / 1e3 for values in by_threads.values()]
                for of in (min, numpy.median, max)
            )
            axes.fill_between(threads, low, high, color=style["color"], alpha=0.2, linewidth=0)
            (marks[style["label"]],) = axes.plot(threads, middle, markersize=4, linewidth=1.2, **style)
            if mechanism in compared:
                side = ["before", "after"][compared.index(mechanism)]
                points = [row for row in paper if row["lru_drain"] == drain and row["threads"] in by_threads]
                (marks[f"published, {style['label']}"],) = axes.plot(
                    [row["threads"] for row in points],
                    [row[side] / 1e3 for row in points],
                    linestyle="",
                    marker=style["marker"],
                    markersize=7,
                    color=style["color"],
                    markerfacecolor="none",
                )
        places, single, said = crossing(lines)
        for place in places:
            axes.axvline(place, color=GREY, linewidth=0.8, linestyle=":")
        if single:
            axes.axvspan(min(single), max(single), color=GREY, alpha=0.15, linewidth=0)
        axes.set_title(f"{machine}, {drain} listing\n{said}", fontsize=8)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(bottom=0)
    for axes in grid[-1]:
        axes.set_xlabel("threads")
    for axes in grid[:, 0]:
        axes.set_ylabel("1000 loops per second")
    figure.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=2)
    return figure


@app.function
def cells(rows, down, across):
    """The cells of figure 3: the median ratio of the elapsed times, by two parameters."""
    found = grouped(ratios(rows, "elapsed_s"), [down, across], "ratio")
    return {key: float(numpy.median(values)) for key, values in found.items()}


@app.function
def draw_cells(values, down, across, label):
    """Figure 3: a heat map, with the ratio in each cell."""
    rows, columns = (sorted({key[part] for key in values}) for part in (0, 1))
    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axes = figure.subplots()
    heights = numpy.array([[values.get((row, column), math.nan) for column in columns] for row in rows])
    # The lightness of cividis falls evenly, so it is as clear in grey.
    mesh = axes.pcolormesh(heights, cmap="cividis", edgecolors="white", linewidth=0.5)
    middle = (numpy.nanmin(heights) + numpy.nanmax(heights)) / 2
    for (row, column), height in numpy.ndenumerate(heights):
        if not math.isnan(height):
            colour = "black" if height > middle else "white"
            axes.text(column + 0.5, row + 0.5, f"{height:.2f}", ha="center", va="center", color=colour)
    axes.set_xticks(numpy.arange(len(columns)) + 0.5, [f"{column:.4g}" for column in columns])
    axes.set_yticks(numpy.arange(len(rows)) + 0.5, [f"{row:.4g}" for row in rows])
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    axes.tick_params(length=0)
    figure.colorbar(mesh, label=label)
    return figure


@app.cell(hide_code=True)
def _():
    mo.md("""
    # From studies to the figures of a paper

    Each figure comes from studies, which are the files beside this notebook. A study's results are kept in a folder, so
    a point is run once: when the notebook runs again, it reads them. Each figure is written as SVG and as PDF.
    """)
    return


@app.cell
def _():
    # The mark `--` before the options is one without a name.
    given = options({name: value for name, value in mo.cli_args().to_dict().items() if name})
    folder = pathlib.Path(given["folder"])
    scale = mo.ui.number(start=0, value=given["scale"], label="the studies' scale, times")
    draws = mo.ui.number(start=1, step=1, value=given["draws"], label="draws, at most")
    seeds = mo.ui.number(start=1, step=1, value=given["seeds"], label="seeds, at most")
    mo.hstack([scale, draws, seeds], justify="start")
    return draws, folder, scale, seeds


@app.cell
def _(draws, folder, scale, seeds):
    @functools.cache
    def results(name):
        return swept(study(name, scale.value, draws.value, seeds.value), folder / name)

    return (results,)


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## Figure 1: ratios

    Each mechanism's figure is divided by that of `per-page` in the same case: the same machine, the same seed. The grey
    bar holds nine of ten machines that were drawn from the ranges of the machine file, so it shows how far the ratio
    depends on uncertain numbers. The dot is the machine of the file, its line the range over seeds. Nothing is fitted
    anew on a drawn machine.
    """)
    return


@app.cell
def _(folder, results):
    by_title = panels(results)
    mo.image(saved(draw_ratios(by_title), folder, "ratios"))
    return (by_title,)


@app.cell(hide_code=True)
def _(by_title):
    mo.md(
        "\n".join(
            f"- {title}, `{mechanism}`: {sentence(line)}"
            for title, lines in by_title.items()
            for mechanism, line in lines.items()
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## Figure 2: crossing points

    Threads of one program flush one page after the other. A line is the median of the seeds, the band their range. A
    dotted line is the place at which the medians cross; the grey area has the places at which single seeds do. With
    fewer than four threads the curves lie on each other, since a space gets a global ASID only when four CPUs run it.
    """)
    return


@app.cell
def _(folder, results):
    by_threads = curves(results("threads"))
    mo.image(saved(draw_curves(by_threads), folder, "crossings"))
    return (by_threads,)


@app.cell(hide_code=True)
def _(by_threads):
    mo.md(
        "\n".join(
            f"- On `{machine}` with {drain} listing, the curves {crossing(lines)[-1]}."
            for (machine, drain), lines in by_threads.items()
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## Figure 3: a heat map

    Elapsed time of `batched` over that of `per-page`, by the time that an interrupt takes to arrive and by the number
    of CPUs. The darker a cell, the more batching saves.
    """)
    return


@app.cell
def _(folder, results):
    ratio_by = cells(results("deliver"), "cpus", "costs.interrupt_deliver")
    mo.image(
        saved(
            draw_cells(ratio_by, "CPUs", "delivery of an interrupt, ns", f"elapsed time, ratio to {BASELINE}"),
            folder,
            "deliver",
        )
    )
    return


if __name__ == "__main__":
    app.run()
