"use strict";
// The numbers of the page, without its looks. What `fadewise compare` prints is computed the same way, in
// reports/curves.py and reports/comparison.py.
const numbers = {
  // The evaluation (by its place) at which a run has reached an accuracy; -1 if it never did.
  reachedAt(run, target, inARow) {
    const accuracy = run.evaluations.accuracy;
    for (let last = inARow; last <= accuracy.length; last++) {
      let sum = 0;
      for (let i = last - inARow; i < last; i++) sum += accuracy[i];
      if (sum >= inARow * target * (1 - 1e-12)) return last - 1;
    }
    return -1;
  },

  // What a run had spent when it reached the target or, if it never did, when it ended.
  spent(run, target, cost, inARow) {
    const at = numbers.reachedAt(run, target, inARow);
    const costs = run.evaluations[cost];
    return { cost: costs[at < 0 ? costs.length - 1 : at], reached: at >= 0 };
  },

  mean: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,

  variance(values) {
    const mean = numbers.mean(values);
    return values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  },

  geometricMean: (values) => Math.exp(numbers.mean(values.map(Math.log))),

  // The ratio of what a target costs two arms: { value, low, high, bound, paired }; bound null: nothing to say.
  ratio(one, other, target, cost, data, paired) {
    const of = (arm, seeds) => arm.runs.filter((run) => !seeds || seeds.has(run.seed))
      .map((run) => numbers.spent(run, target, cost, data.inARow));
    const seeds = new Set(one.runs.map((run) => run.seed));
    const both = new Set(other.runs.map((run) => run.seed).filter((seed) => seeds.has(seed)));
    paired = paired && both.size > 0;
    const [ours, theirs] = [of(one, paired && both), of(other, paired && both)];
    const logs = [ours, theirs].map((side) => side.map((at) => Math.log(at.cost)));
    const value = Math.exp(numbers.mean(logs[0]) - numbers.mean(logs[1]));
    const more = !ours.every((at) => at.reached), less = !theirs.every((at) => at.reached);
    if (more || less) return { value, bound: more && less ? null : more ? "≥" : "≤", paired };
    const half = paired ? numbers.pairedHalf(logs, data.tQuantiles) : numbers.apartHalf(logs, data.tQuantiles);
    return half === null ? { value, bound: "", paired }
      : { value, bound: "", paired, low: value * Math.exp(-half), high: value * Math.exp(half) };
  },

  // Half the interval of the mean difference of pairs, by Student's t.
  pairedHalf([one, other], quantiles) {
    const count = one.length;
    if (count < 2) return null;
    return quantiles[count - 2] * Math.sqrt(numbers.variance(one.map((log, i) => log - other[i])) / count);
  },

  // The same of two means taken apart, by Welch's t.
  apartHalf(logs, quantiles) {
    if (logs.some((side) => side.length < 2)) return null;
    const errors = logs.map((side) => numbers.variance(side) / side.length);
    const total = errors[0] + errors[1];
    if (total === 0) return 0;
    const degrees = total ** 2 / errors.reduce((sum, e, i) => sum + e ** 2 / (logs[i].length - 1), 0);
    return quantiles[Math.max(1, Math.floor(degrees)) - 1] * Math.sqrt(total);
  },

  // y at x on a line through points; x is within them.
  at(xs, ys, x) {
    let high = 1;
    while (high < xs.length - 1 && xs[high] < x) high++;
    const low = high - 1;
    if (xs.length === 1 || xs[high] === xs[low]) return ys[Math.min(high, ys.length - 1)];
    const part = Math.min(1, Math.max(0, (x - xs[low]) / (xs[high] - xs[low])));
    return ys[low] + part * (ys[high] - ys[low]);
  },

  // The mean over curves and their span, at points where all of them are known: [{ x, mean, low, high }].
  band(curves, points, logarithmic) {
    const first = Math.max(...curves.map(([xs]) => xs[0])), last = Math.min(...curves.map(([xs]) => xs.at(-1)));
    if (!(last >= first)) return [];
    const count = last === first ? 1 : points;
    return Array.from({ length: count }, (_, i) => {
      const part = count === 1 ? 0 : i / (count - 1);
      const x = i === count - 1 ? last : logarithmic ? first * (last / first) ** part : first + part * (last - first);
      const ys = curves.map(([xs, values]) => numbers.at(xs, values, x));
      return { x, mean: numbers.mean(ys), low: Math.min(...ys), high: Math.max(...ys) };
    });
  },

  // Some four to seven round numbers within a range.
  ticks(low, high, wanted) {
    const raw = (high - low) / wanted || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(+(k * step).toPrecision(12));
    return ticks;
  },

  // A number for people: four significant digits, no more than needed.
  text(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
    return (+value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  },
};
