"""The table of results, as Markdown."""
import shlex

VERDICTS = {True: "met", False: "**missed**", None: "not measured"}


def number(value):
    """Three digits, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def unit_of(row):
    return {"value": row.unit, "difference": row.unit}.get(row.kind, "×")


def median_text(row, spread):
    return f"{number(spread.median)} {unit_of(row)}".strip()


def spread_text(spread):
    return f"{number(spread.low)} to {number(spread.high)}"


def cell(text):
    return text.replace("|", "\\|")


def peers_text(summary):
    texts = [f"{name} {median_text(summary.row, spread)}" for name, spread in summary.peers.items()]
    return "; ".join(texts) or "–"


def table(summaries):
    lines = ["| what | target | measured (median) | quartiles | samples | | peers (medians) |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for summary in summaries:
        row, measured = summary.row, summary.measured
        columns = [row.what, row.target, median_text(row, measured) if measured else "–",
                   spread_text(measured) if measured else "–", str(measured.count) if measured else "–",
                   VERDICTS[summary.is_met], peers_text(summary)]
        lines.append("| " + " | ".join(map(cell, columns)) + " |")
    return lines


def sides_of(row):
    return [side for side in (row.levin, row.baseline, *row.peers) if side]


def details(summaries, shown_command):
    """What each row runs, and the values of its sides."""
    lines = []
    for summary in summaries:
        row = summary.row
        lines += [f"- **{row.what}.** {row.note}".rstrip()]
        for side in sides_of(row):
            spread = summary.sides.get(side.name)
            values = f"{number(spread.median)} ({spread_text(spread)})" if spread else "no sample"
            lines.append(f"  - {side.name}: {values}: `{shlex.join(shown_command(side.command))}`")
    return lines


def left_out(summaries):
    lines = [f"- {name} in \"{summary.row.what}\": {reason}" for summary in summaries
             for name, reason in summary.left_out.items()]
    return ["", "## Left out", "", *lines] if lines else []


def write(summaries, facts, quick, shown_command, picture):
    """The whole page. `shown_command`: makes of a side's command one that a reader can type."""
    kind = "`make bench-quick` wrote this, with few repetitions: numbers to find one's way by" if quick else "`make bench` wrote this"
    missed = sum(summary.is_met is False for summary in summaries)
    measured = sum(summary.measured is not None for summary in summaries)
    lines = [
        "# What levin costs, and what others do", "",
        f"{kind}. {measured - missed} of {measured} targets are met, {missed} missed.", "",
        "The sides of a row alternate, each sample a separate process; what counts is the ratio (or difference) of samples that "
        "were taken one after the other. Shown are the median of these and their quartiles. Peers are divided by the same "
        "baseline as levin.", "",
        f"![measured over target]({picture})", "",
        *[f"- {name}: {text}" for name, text in facts], "",
        *table(summaries),
        *left_out(summaries), "",
        "## What each row runs", "",
        "Medians and quartiles of the sides themselves: microseconds a step, seconds, or MB, as the row says.", "",
        *details(summaries, shown_command),
    ]
    return "\n".join(lines) + "\n"
