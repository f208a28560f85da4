"""What samples say: ratios of neighbours, their median and spread, and whether a target is met."""
import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sample:
    row: str
    round: int
    side: str
    value: float = None
    failed: str = ""  # why there is no value


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of numbers."""
    median: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(values):
        values = sorted(values)
        if len(values) < 3:
            return Spread(statistics.median(values), values[0], values[-1], len(values))
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(statistics.median(values), low, high, len(values))


@dataclass(frozen=True)
class Summary:
    """Of one row. `measured` is none where there is no sample; `problem` says why."""
    row: object
    measured: Spread = None
    sides: dict = field(default_factory=dict)  # by name: the values themselves
    peers: dict = field(default_factory=dict)  # by name: as `measured`
    left_out: dict = field(default_factory=dict)  # by name: why

    @property
    def is_met(self):
        """None when it was not measured."""
        if self.measured is None:
            return None
        return self.measured.median >= self.row.limit if self.row.at_least else self.measured.median <= self.row.limit


def compare(row, value, baseline):
    """What is made of neighbouring samples, of levin or a peer, and of the baseline."""
    if row.kind == "value":
        return value
    if row.kind == "difference":
        return value - baseline
    if row.kind == "speed":
        return baseline / value
    return value / baseline / row.scale


def summarize(row, samples):
    """`samples`: of any rows, in any order. A round in which a side failed counts for the others."""
    values, problems = {}, {}
    for sample in samples:
        if sample.row != row.key:
            continue
        if sample.failed:
            problems[sample.side] = sample.failed
        else:
            values.setdefault(sample.side, {})[sample.round] = sample.value
    baseline = values.get(row.baseline.name, {}) if row.baseline else None

    def compared(side):
        own = values.get(side.name, {})
        rounds = own if baseline is None else own.keys() & baseline.keys()
        made = [compare(row, own[number], baseline and baseline[number]) for number in sorted(rounds)]
        return Spread.of(made) if made else None

    peers = {side.name: compared(side) for side in row.peers}
    return Summary(
        row=row, measured=compared(row.levin) if row.levin else None,
        sides={name: Spread.of(list(by_round.values())) for name, by_round in values.items()},
        peers={name: spread for name, spread in peers.items() if spread},
        left_out={side: problem for side, problem in problems.items() if side not in values})
