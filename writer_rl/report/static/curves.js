// Curves as SVG at the width that the page gives them: text keeps its size on a phone.
const COLOURS = ["var(--blue)", "var(--red)", "var(--green)", "var(--violet)", "var(--orange)", "var(--soft)", "var(--ink)"];
const DASHES = ["", "6 3", "2 3", "9 3 2 3", "", "6 3", "2 3"];
const HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 24;

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function range(values, spec) {
  let low = Math.min(...values), high = Math.max(...values);
  if (spec.limit !== undefined) high = Math.max(high, spec.limit * 1.1);
  if (spec.zero || spec.stack) { low = Math.min(low, 0); high = Math.max(high, 0); }
  if (high - low < 1e-12) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  return [low, high];
}

// spec: title, note, x: steps, series: [{name, values}], and where wanted limit, marks: [index], zero, stack
function chart(spec) {
  const figure = make("figure", {}, make("figcaption", {}, spec.title, spec.note ? make("small", {}, spec.note) : ""));
  const holder = make("div"), values = spec.series.map(() => make("span"));
  const label = (series, i) => make("span", {},
    draw("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" },
      spec.stack ? draw("rect", { width: 22, height: 8, fill: COLOURS[i % 7] })
        : draw("path", { d: "M0 4H22", stroke: COLOURS[i % 7], "stroke-width": 2, "stroke-dasharray": DASHES[i % 7] })),
    series.name, values[i]);
  const step = make("span", { className: "quiet" });
  figure.append(holder, make("div", { className: "legend" }, spec.series.map(label), step));
  let at = spec.x.length - 1, width = 0;
  const show = () => {
    step.textContent = `at ${spec.unit || "round"} ${spec.x[at]}`;
    spec.series.forEach((series, i) => { values[i].textContent = number(series.values[at]); });
  };
  const redraw = () => { holder.replaceChildren(plot(spec, width, at, move)); show(); };
  const move = (index) => {
    const next = Math.max(0, Math.min(spec.x.length - 1, index));
    if (next === at) return;
    at = next;
    const focused = holder.contains(document.activeElement);
    redraw();
    if (focused) holder.firstChild.focus();
  };
  onWidth(holder, (wide) => { width = wide; redraw(); });
  return figure;
}

// Calls back with an element's width when it is first laid out, and whenever it changes.
function onWidth(element, then) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const wide = Math.floor(entry.contentRect.width);
    if (wide && wide !== width) { width = wide; requestAnimationFrame(() => then(wide)); }
  }).observe(element);
}

function plot(spec, width, at, move) {
  const count = spec.x.length, inner = width - LEFT - RIGHT;
  const totals = spec.x.map((_, j) => spec.series.reduce((sum, one) => sum + (one.values[j] || 0), 0));
  const all = spec.stack ? totals : spec.series.flatMap((one) => one.values.filter((value) => value !== null));
  const [low, high] = range(all.length ? all : [0, 1], spec);
  const slot = spec.stack ? inner / count : 0;
  const x = (j) => LEFT + (spec.stack ? (j + 0.5) * slot : count === 1 ? inner / 2 : (j * inner) / (count - 1));
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const index = (event) => {
    const place = event.clientX - svg.getBoundingClientRect().left - LEFT;
    return Math.round(spec.stack ? place / slot - 0.5 : count === 1 ? 0 : (place * (count - 1)) / inner);
  };
  const arrows = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count };
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, tabindex: 0, role: "img",
    "aria-label": `${spec.title}. ${spec.series.map((one) => `${one.name} ${number(one.values[at])}`).join(", ")} at ${spec.x[at]}. Arrow keys move.`,
    onpointermove: (event) => move(index(event)), onpointerdown: (event) => move(index(event)),
    onkeydown: (event) => { if (event.key in arrows) { event.preventDefault(); move(at + arrows[event.key]); } },
  });
  for (const value of ticks(low, high, 4)) {
    svg.append(draw("path", { className: "grid", d: `M${LEFT} ${y(value)}H${width - RIGHT}` }),
      draw("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(+value.toPrecision(3)).replace("-", "\u2212")));
  }
  const marks = count === 1 ? [0] : ticks(0, count - 1, Math.min(count - 1, Math.max(2, inner / 70))).filter(Number.isInteger);
  for (const j of marks) svg.append(draw("text", { x: x(j), y: HEIGHT - 6, "text-anchor": "middle" }, String(spec.x[j])));
  for (const j of spec.marks || []) {
    svg.append(draw("path", { d: `M${x(j)} ${TOP}V${HEIGHT - BOTTOM}`, stroke: "var(--red)", "stroke-width": Math.max(3, inner / count / 2), opacity: 0.2 }));
  }
  if (spec.limit !== undefined) svg.append(draw("path", { className: "limit", d: `M${LEFT} ${y(spec.limit)}H${width - RIGHT}` }));
  if (spec.stack) bars(svg, spec, x, y, slot);
  else spec.series.forEach((one, i) => line(svg, one.values, x, y, i));
  svg.append(draw("path", { className: "cursor", d: `M${x(at)} ${TOP}V${HEIGHT - BOTTOM}` }));
  return svg;
}

function line(svg, values, x, y, i) {
  const known = values.map((value, j) => [value, j]).filter(([value]) => value !== null);
  const path = known.map(([value, j], n) => `${n && known[n - 1][1] === j - 1 ? "L" : "M"}${x(j).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  svg.append(draw("path", { d: path, fill: "none", stroke: COLOURS[i % 7], "stroke-width": 1.8, "stroke-dasharray": DASHES[i % 7] }));
  if (known.length <= 12) known.forEach(([value, j]) => svg.append(draw("circle", { cx: x(j), cy: y(value), r: 2.5, fill: COLOURS[i % 7] })));
}

function bars(svg, spec, x, y, slot) {
  spec.x.forEach((_, j) => {
    let base = 0;
    spec.series.forEach((one, i) => {
      const value = one.values[j] || 0;
      svg.append(draw("rect", { x: x(j) - slot * 0.4, width: Math.max(1, slot * 0.8), y: y(base + value), height: Math.max(0, y(base) - y(base + value)), fill: COLOURS[i % 7] }));
      base += value;
    });
  });
}

// One cell a round and position: each round has another network, so that lines would only cross.
function heat(title, columns, measure, x) {
  const names = Object.keys(columns).map((name) => name.match(new RegExp(`^position/(\\d+)/${measure}$`))).filter(Boolean);
  const rows = names.map((found) => [Number(found[1]), columns[found[0]]]).sort((a, b) => a[0] - b[0]);
  if (!rows.length) return null;
  const known = rows.flatMap(([, values]) => values.filter((value) => value !== null));
  const low = Math.min(...known), high = Math.max(...known), wide = high - low || 1;
  const tell = (t, j, value) => `round ${x[j]}, position ${t}: ${number(value)}`;
  const told = make("span", { className: "quiet" }, `dark is low (${number(low)}), bright is high (${number(high)})`);
  const size = Math.max(10, Math.min(22, 200 / rows.length)), holder = make("div");
  const paint = (width) => {
    const svg = draw("svg", { viewBox: `0 0 ${width} ${rows.length * size}`, height: rows.length * size, role: "img", "aria-label": title });
    const cell = (width - 30) / x.length;
    rows.forEach(([t, values], row) => {
      svg.append(draw("text", { x: 20, y: row * size + size / 2 + 4, "text-anchor": "end" }, String(t)));
      values.forEach((value, j) => {
        if (value === null) return;
        const share = (value - low) / wide;
        const text = tell(t, j, value), say = () => { told.textContent = text; };
        svg.append(draw("rect", { x: 28 + j * cell, y: row * size, width: Math.max(1, cell - 1), height: size - 1, fill: `hsl(${265 - 205 * share} 65% ${24 + 48 * share}%)`, onpointermove: say, onpointerdown: say },
          draw("title", {}, text)));
      });
    });
    holder.replaceChildren(svg);
  };
  onWidth(holder, paint);
  return make("figure", {}, make("figcaption", {}, title, make("small", {}, "position down, round across")), holder, make("div", { className: "legend" }, told));
}

function curves(summary) {
  const grpo = summary.grpo, sft = summary.sft, steps = grpo.step || [];
  const pick = (columns, names) => names.filter((name) => columns[name] && columns[name].some((value) => value !== null)).map((name) => ({ name, values: columns[name] }));
  const like = (pattern) => Object.keys(grpo).filter((name) => pattern.test(name)).sort();
  const gated = (grpo["kl_gate/gated"] || []).flatMap((value, j) => (value ? [j] : []));
  const specs = [
    { title: "Reward", note: "mean return of a round; spread is that inside groups", names: ["reward", "reward_std"] },
    { title: "Parts of the reward", names: ["reward/valid", "reward/mem", "reward/phi", "reward/worst_owner", "reward/chain"] },
    { title: "Penalties and terminal questions", note: "as they enter the return", names: ["reward/penalty", "reward/qa_term"], zero: true },
    { title: "QA gain", note: "accuracy with the memory minus without", names: ["qa/gain"], zero: true },
    { title: "Positions that train", note: "the others' returns differ too little", names: ["adv/positions", "adv/positions_kept"], zero: true },
    { title: "KL to the SFT policy", note: `before each epoch's step; gate at ${summary.gate}${gated.length ? `, shut in ${gated.length} rounds (red)` : ", never shut"}`, names: like(/^epoch\/\d+\/kl$/), limit: summary.gate, marks: gated, zero: true },
    { title: "Completion length", note: "tokens", names: ["completions/mean_length", "completions/max_length"], zero: true },
    { title: "Validity", note: "shares of outputs or actions", names: ["valid/strict_json", "valid/actions", "reward/dup", "reward/stop", "completions/clipped_ratio"], zero: true },
    { title: "Actions a write", names: ["actions/add", "actions/update", "actions/noop"], zero: true },
    { title: "Unjudged questions", names: ["qa/questions", "qa/unjudged"], zero: true },
    { title: "Gradient norm", note: "before the cap", names: ["grad_norm"], zero: true },
    { title: "Clipped tokens", note: "shares", names: ["clip_ratio/low_mean", "clip_ratio/high_mean"], zero: true },
    { title: "Time by phase", note: "seconds a round", names: like(/^time\//), stack: true },
    { title: "Held-out evaluation", names: like(/^eval\//) },
  ];
  const figures = specs.map((spec) => ({ ...spec, x: steps, series: pick(grpo, spec.names) })).filter((spec) => spec.series.length).map(chart);
  const grids = [["reward", "Return by position"], ["phi", "Phi by position"], ["sigma", "Spread of returns by position"]];
  figures.splice(3, 0, ...grids.map(([measure, title]) => heat(title, grpo, measure, steps)).filter(Boolean));
  for (const [title, names] of [["SFT loss", ["loss"]], ["SFT gradient norm", ["grad_norm"]]]) {
    const series = pick(sft, names);
    if (series.length) figures.push(chart({ title, note: "by optimizer step", unit: "step", x: sft.step, series, zero: true }));
  }
  const begun = steps.length ? `${steps.length} rounds of GRPO` : "no round of GRPO yet";
  return [make("p", { className: "quiet" }, `${begun}${sft.step ? `, ${sft.step.length} steps of SFT` : ""}. Point at a curve, or move along it with the arrow keys.`),
    make("div", { className: "charts" }, figures)];
}
