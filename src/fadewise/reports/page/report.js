(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const COSTS = [
    ["airtime_s", "Airtime", "airtime, s"],
    ["rounds", "Rounds", "rounds"],
    ["energy", "Energy", data.joules ? "energy, J" : "energy"],
    ["round_time_s", "Round time", "round time, s"],
    ["wall_s", "Wall time", "wall time, s"],
  ].filter(([cost]) => known(cost));
  const state = { cost: "airtime_s", target: data.target, over: 0, hidden: new Set(), x: {} };

  // A cost that is not in all runs, or is another one's twin (round time without overhead), is no choice.
  function known(cost) {
    const runs = data.arms.flatMap((arm) => arm.runs);
    if (runs.some((run) => run.evaluations[cost].some((value) => value === null))) return false;
    return cost !== "round_time_s" || runs.some((run) => run.evaluations.round_time_s.at(-1) !== run.evaluations.airtime_s.at(-1));
  }

  // As in figures: uniform choice is grey, and what there are no more colours for is dashed.
  const ranks = [0, 0];
  const looks = data.arms.map((arm) => {
    const rank = ranks[+arm.uniform]++;
    const [tint, turn] = arm.uniform ? [0, rank] : [1 + (rank % 7), Math.floor(rank / 7)];
    return { color: `var(--c${tint})`, dash: [null, "7 4", "2 3", "12 3 2 3"][turn % 4] };
  });
  const color = (index) => looks[index].color;
  const dash = (index) => looks[index].dash;
  const shown = () => data.arms.map((arm, index) => ({ ...arm, index })).filter((arm) => !state.hidden.has(arm.index));

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function drawn(svg, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
    return made;
  }

  function swatch(index) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of [["class", "swatch"], ["aria-hidden", "true"], ["viewBox", "0 0 24 4"]]) made.setAttribute(name, value);
    drawn(made, "line", { x1: 0, x2: 24, y1: 2, y2: 2, stroke: color(index), "stroke-width": 3, "stroke-dasharray": dash(index) });
    return made;
  }

  // ---- charts -------------------------------------------------------------------------------------------------

  const CHARTS = {
    accuracy: {
      curves: (arm) => arm.runs.map((run) => [run.evaluations[state.cost], run.evaluations.accuracy]),
      xName: () => COSTS.find(([cost]) => cost === state.cost)[2],
      name: "Accuracy", digits: 3, target: true,
    },
    loss: {
      curves: (arm) => arm.runs.map((run) => [run.evaluations[state.cost], run.evaluations.loss]),
      xName: () => COSTS.find(([cost]) => cost === state.cost)[2],
      name: "Test loss", digits: 3,
    },
    power: {
      curves: (arm) => arm.runs.map((run) => [run.power.map(([x]) => x), run.power.map(([, y]) => y)]),
      xName: () => "rounds, logarithmic", name: "Average power so far, over its limit", digits: 3, limit: 1, logarithmic: true,
    },
  };

  function draw(id) {
    const chart = CHARTS[id], place = $(id);
    const bands = shown().map((arm) => ({ arm, points: numbers.band(chart.curves(arm), 240, chart.logarithmic) }))
      .filter(({ points }) => points.length);
    const width = place.clientWidth, height = place.clientHeight;
    if (!width) return;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-hidden", "true");
    place.replaceChildren(svg);
    place.setAttribute("aria-label", `${chart.name} against ${chart.xName()}. Left and right arrows read values.`);
    if (!bands.length) {
      drawn(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "No configuration is chosen");
      chart.scales = null;
      return;
    }
    const edge = { left: 46, right: 14, top: 10, bottom: 40 };
    const all = bands.flatMap(({ points }) => points);
    const high = Math.max(...all.map((p) => p.high), chart.limit ?? 0, chart.target ? state.target : 0);
    const low = id === "loss" ? Math.min(...all.map((p) => p.low)) : 0;
    const yLow = Math.max(0, low - 0.05 * (high - low)), yHigh = high + 0.05 * (high - yLow);
    const xLow = chart.logarithmic ? Math.max(1, Math.min(...all.map((p) => p.x))) : 0;
    const xHigh = Math.max(...all.map((p) => p.x)) || 1;
    const place01 = chart.logarithmic ? (x) => Math.log(x / xLow) / Math.log(xHigh / xLow || 2) : (x) => x / xHigh;
    const x = (value) => edge.left + place01(value) * (width - edge.left - edge.right);
    const y = (value) => height - edge.bottom - ((value - yLow) / (yHigh - yLow)) * (height - edge.top - edge.bottom);
    const valueAt = (pixel) => {
      const part = Math.min(1, Math.max(0, (pixel - edge.left) / (width - edge.left - edge.right)));
      return chart.logarithmic ? xLow * (xHigh / xLow) ** part : part * xHigh;
    };
    chart.scales = { x, y, xLow, xHigh, bands, svg, valueAt, edge, height, yLow, yHigh };

    for (const tick of numbers.ticks(yLow, yHigh, 5)) {
      drawn(svg, "line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick) });
      drawn(svg, "text", { x: edge.left - 8, y: y(tick) + 4, "text-anchor": "end" }, numbers.text(tick));
    }
    const xTicks = chart.logarithmic
      ? Array.from({ length: 8 }, (_, k) => 10 ** k).filter((tick) => tick >= xLow && tick <= xHigh)
      : numbers.ticks(0, xHigh, Math.max(2, Math.min(6, width / 90)));
    for (const tick of xTicks) {
      drawn(svg, "line", { class: "axis", x1: x(tick), x2: x(tick), y1: height - edge.bottom, y2: height - edge.bottom + 5 });
      drawn(svg, "text", { x: x(tick), y: height - edge.bottom + 18, "text-anchor": "middle" }, tick.toLocaleString("en"));
    }
    drawn(svg, "line", { class: "axis", x1: edge.left, x2: width - edge.right, y1: height - edge.bottom, y2: height - edge.bottom });
    drawn(svg, "text", { x: width - edge.right, y: height - 5, "text-anchor": "end" }, chart.xName());
    for (const { arm, points } of bands) {
      if (arm.runs.length > 1) {
        const path = points.map((p) => `${x(p.x).toFixed(1)},${y(p.high).toFixed(1)}`)
          .concat([...points].reverse().map((p) => `${x(p.x).toFixed(1)},${y(p.low).toFixed(1)}`));
        drawn(svg, "polygon", { class: "band", points: path.join(" "), fill: color(arm.index) });
      }
    }
    for (const { arm, points } of bands) {
      const path = points.map((p) => `${x(p.x).toFixed(1)},${y(p.mean).toFixed(1)}`).join(" ");
      drawn(svg, "polyline", { class: "line", points: path, stroke: color(arm.index), "stroke-dasharray": dash(arm.index) });
    }
    if (chart.limit) drawLimit(svg, width, edge, y(chart.limit), "limit", 15); // power comes down to it from above
    if (chart.target) drawTarget(svg, width, edge, y(state.target));
    if (state.x[id] !== undefined) read(id, state.x[id]);
  }

  function drawLimit(svg, width, edge, at, name, below) {
    drawn(svg, "line", { class: "limit", x1: edge.left, x2: width - edge.right, y1: at, y2: at });
    drawn(svg, "text", { class: "limit-text", x: width - edge.right, y: at + below, "text-anchor": "end" }, name);
  }

  function drawTarget(svg, width, edge, at) {
    // To the right and below are the fewest curves: they have come to the target, or have ended.
    const below = at + 24 < $("accuracy").clientHeight - edge.bottom ? 16 : -6;
    drawLimit(svg, width, edge, at, `target ${state.target.toFixed(3)}, drag it`, below);
    drawn(svg, "rect", { class: "knob", x: edge.left - 3, y: at - 9, width: 6, height: 18, rx: 3 });
    const grip = drawn(svg, "rect", { class: "grip", x: edge.left - 16, y: at - 14, width: width - edge.left - edge.right + 16, height: 28 });
    grip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const follow = (moved) => {
        const { yLow, yHigh, height, edge } = CHARTS.accuracy.scales;
        const top = $("accuracy").getBoundingClientRect().top;
        const part = (height - edge.bottom - (moved.clientY - top)) / (height - edge.top - edge.bottom);
        setTarget(yLow + part * (yHigh - yLow));
      };
      const end = () => {
        window.removeEventListener("pointermove", follow);
        window.removeEventListener("pointerup", end);
        window.removeEventListener("pointercancel", end);
      };
      window.addEventListener("pointermove", follow);
      window.addEventListener("pointerup", end);
      window.addEventListener("pointercancel", end);
    });
  }

  // Values of all lines at x, below the chart and for those who do not see it.
  function read(id, value) {
    const chart = CHARTS[id];
    if (!chart.scales) return;
    const { x, svg, edge, height, bands, xLow, xHigh } = chart.scales;
    value = Math.min(xHigh, Math.max(xLow, value));
    state.x[id] = value;
    svg.querySelector(".cross")?.remove();
    drawn(svg, "line", { class: "cross", x1: x(value), x2: x(value), y1: edge.top, y2: height - edge.bottom });
    const readout = $(`${id}-readout`);
    readout.replaceChildren(element("span", {}, `at ${numbers.text(value)}:`));
    for (const { arm, points } of bands) {
      const [first, last] = [points[0].x, points.at(-1).x];
      const text = value < first || value > last ? "–"
        : numbers.at(points.map((p) => p.x), points.map((p) => p.mean), value).toFixed(chart.digits);
      readout.append(element("span", {}, swatch(arm.index), element("span", { class: "unseen" }, arm.name), element("b", {}, text)));
    }
  }

  function unread(id) {
    delete state.x[id];
    CHARTS[id].scales?.svg.querySelector(".cross")?.remove();
    $(`${id}-readout`).replaceChildren("Values: point at the curves, or press ← and → here.");
  }

  // ---- tables -------------------------------------------------------------------------------------------------

  function costs() {
    const head = element("tr", {}, element("th", { scope: "col" }, "configuration"), element("th", { scope: "col" }, "reached by"));
    for (const [, , name] of COSTS) head.append(element("th", { scope: "col" }, name));
    const body = element("tbody");
    const reference = data.arms[state.over];
    const unpaired = [];
    for (const arm of shown()) {
      const reached = arm.runs.filter((run) => numbers.reachedAt(run, state.target, data.inARow) >= 0).length;
      const row = element("tr", { "data-arm": arm.index },
        element("th", { scope: "row" }, swatch(arm.index), arm.name), element("td", {}, `${reached} of ${arm.runs.length}`));
      const shares = !arm.unshared[state.over].length;
      if (!shares) unpaired.push(`${arm.name} is not paired with ${reference.name}: they differ in ${arm.unshared[state.over].join(", ")}.`);
      for (const [cost] of COSTS) {
        const spent = arm.runs.map((run) => numbers.spent(run, state.target, cost, data.inARow));
        const sign = spent.every((at) => at.reached) ? "" : "> ";
        const cell = element("td", { "data-cost": cost }, sign + numbers.text(numbers.geometricMean(spent.map((at) => at.cost))));
        if (arm.index !== state.over && cost !== "wall_s") cell.append(ratioText(numbers.ratio(arm, reference, state.target, cost, data, shares)));
        row.append(cell);
      }
      body.append(row);
    }
    $("costs").replaceChildren(element("caption", { class: "unseen" }, `Costs of accuracy ${state.target.toFixed(3)}`), element("thead", {}, head), body);
    $("costs-note").textContent = unpaired.join(" ");
  }

  function ratioText({ value, low, high, bound }) {
    if (bound === null) return element("small", {}, "×–");
    const text = element("small", {}, element("b", {}, `× ${bound}${bound && " "}${value.toFixed(2)}`));
    if (low !== undefined) text.append(` (${low.toFixed(2)}–${high.toFixed(2)})`);
    return text;
  }

  function devices() {
    const groups = data.arms[0].runs[0].groups.map(([name, count]) => ({ name, count }));
    const alike = data.arms.every((arm) => arm.runs.every((run) => run.groups.length === groups.length
      && run.groups.every(([name, count], i) => name === groups[i].name && count === groups[i].count)));
    const arms = shown();
    const rows = alike ? groups.map((group, i) => ({ ...group, arms, of: (arm) => arm.runs.map((run) => run.groups[i]) }))
      : arms.flatMap((arm) => arm.runs[0].groups.map(([name, count], i) => (
        { name, count, arms: [arm], of: () => arm.runs.map((run) => run.groups[i]) })));
    const values = rows.flatMap((row) => row.arms.map((arm) => [2, 3].map((k) => numbers.mean(row.of(arm).map((g) => g[k])))));
    const most = [0, 1].map((k) => Math.max(...values.map((v) => v[k]), k ? 1 : 0) * 1.02);
    const what = ["updates a device sends in 100 rounds", "power a device spends, over its limit"];
    const head = element("tr", {}, ...["devices", ...what].map((name) => element("th", { scope: "col" }, name)));
    const body = element("tbody");
    for (const row of rows) {
      const cells = [2, 3].map((k) => {
        const cell = element("td", { "data-what": what[k - 2] });
        for (const arm of row.arms) {
          const value = numbers.mean(row.of(arm).map((group) => group[k]));
          const fill = element("i");
          fill.style.width = `${(100 * value) / most[k - 2]}%`;
          fill.style.background = dash(arm.index)
            ? `repeating-linear-gradient(90deg, ${color(arm.index)} 0 7px, transparent 7px 10px)` : color(arm.index);
          const track = element("div", { class: "track" }, fill);
          if (k === 3) {
            const mark = element("div", { class: "mark" });
            mark.style.left = `${100 / most[1]}%`;
            track.append(mark);
          }
          cell.append(element("div", { class: "bar" }, track,
            element("span", {}, element("span", { class: "unseen" }, `${arm.name}: `), k === 2 ? (100 * value).toPrecision(3) : value.toFixed(2))));
        }
        return cell;
      });
      body.append(element("tr", {}, element("th", { scope: "row" }, `${row.count.toLocaleString("en")} × ${row.name}`), ...cells));
    }
    $("devices").replaceChildren(element("thead", {}, head), body);
  }

  // ---- the reader ---------------------------------------------------------------------------------------------

  function setTarget(value) {
    if (!Number.isFinite(value)) return;
    state.target = Math.round(Math.min(0.999, Math.max(0.01, value)) * 1000) / 1000;
    $("target-range").value = state.target;
    if (document.activeElement !== $("target-number")) $("target-number").value = state.target;
    draw("accuracy");
    costs();
  }

  function all() {
    for (const id of Object.keys(CHARTS)) draw(id);
    costs();
    devices();
  }

  function begin() {
    const runs = data.arms.flatMap((arm) => arm.runs), seeds = new Set(runs.map((run) => run.seed));
    const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
    $("summary").textContent = `${count(data.arms.length, "configuration")}, ${count(runs.length, "run")}, ${count(seeds.size, "seed")}`;
    $("in-a-row").textContent = { 3: "three" }[data.inARow] ?? data.inARow;

    for (const [cost, name] of COSTS) {
      const input = element("input", { type: "radio", name: "axis", value: cost });
      input.checked = cost === state.cost;
      input.addEventListener("change", () => {
        state.cost = cost;
        for (const id of ["accuracy", "loss"]) unread(id), draw(id);
      });
      $("axis").append(element("label", {}, input, element("span", {}, name)));
    }
    data.arms.forEach((arm, index) => {
      const input = element("input", { type: "checkbox", name: "arm", value: index });
      input.checked = true;
      input.addEventListener("change", () => {
        state.hidden[input.checked ? "delete" : "add"](index);
        all();
      });
      $("arms").append(element("label", {}, input, swatch(index), arm.name));
      $("over").append(element("option", { value: index }, arm.name));
    });
    $("over").addEventListener("change", (event) => { state.over = +event.target.value; costs(); });

    const range = $("target-range"), number = $("target-number");
    for (const input of [range, number]) {
      for (const [key, value] of Object.entries({ min: 0.01, max: 0.999, step: 0.001 })) input.setAttribute(key, value);
      input.addEventListener("input", () => setTarget(input.valueAsNumber));
    }
    number.setAttribute("step", 0.005);
    number.addEventListener("change", () => { number.value = state.target; });
    const highest = Math.max(...runs.flatMap((run) => run.evaluations.accuracy));
    range.max = Math.min(0.999, Math.ceil(highest * 100 + 1) / 100);
    range.value = number.value = state.target;

    for (const input of document.querySelectorAll('input[name="theme"]')) {
      input.addEventListener("change", () => { document.documentElement.dataset.theme = input.value; });
    }
    for (const id of Object.keys(CHARTS)) {
      const place = $(id);
      place.addEventListener("pointermove", (event) => {
        const { scales } = CHARTS[id];
        if (scales) read(id, scales.valueAt(event.clientX - place.getBoundingClientRect().left));
      });
      place.addEventListener("pointerleave", () => unread(id));
      place.addEventListener("blur", () => unread(id));
      place.addEventListener("keydown", (event) => {
        const { scales } = CHARTS[id];
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step || !scales) return;
        event.preventDefault();
        const { x, valueAt, xHigh, edge } = scales;
        const pixels = (x(xHigh) - edge.left) / 40;
        const from = state.x[id] === undefined ? (step > 0 ? edge.left - pixels : x(xHigh) + pixels) : x(state.x[id]);
        read(id, valueAt(from + step * pixels));
      });
    }
    for (const id of Object.keys(CHARTS)) unread(id);
    // Drawn in the size of the page's text, so again whenever there is more or less room.
    let width = 0;
    new ResizeObserver(() => {
      if (document.body.clientWidth !== width) { width = document.body.clientWidth; all(); }
    }).observe(document.body);
  }

  begin();
})();
