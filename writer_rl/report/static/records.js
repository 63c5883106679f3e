// States: a record is [id, t, owner, source, layer, utype, content, from_ids, id of the one it replaces].
const LAYERS = { per_speaker_core: "core", per_speaker_profile: "profile", group_interaction: "interaction", group_insight: "insight" };

function stateAt(records, t) {
  const held = records.filter((record) => record[1] <= t).map((record) => ({
    id: record[0], t: record[1], owner: record[2], source: record[3], layer: record[4], utype: record[5],
    content: record[6], from: record[7], older: record[8], newer: null, replacedAt: null,
  }));
  const byId = new Map(held.map((record) => [record.id, record]));
  for (const record of held) {
    const older = record.older && byId.get(record.older);
    if (older) { older.newer = record.id; older.replacedAt = record.t; }
  }
  return held;
}

const placeOf = (one) => `${LAYERS[one.layer] || one.layer}, ${one.utype}${one.source === one.owner ? "" : `, by ${one.source}`}`;

// What is different between the places of two records, as words.
function misplaced(ours, theirs) {
  const names = ["owner", "source", "layer"].filter((name) => ours[name] !== theirs[name]);
  const told = (name, one) => (name === "layer" ? LAYERS[one.layer] || one.layer : one[name]);
  return names.map((name) => `${name} should be ${told(name, theirs)}, not ${told(name, ours)}`).join("; ");
}

function recordNode(record, t, fate, matched, prefix) {
  const state = record.t === t ? " fresh" : record.replacedAt === t ? " replaced" : record.newer ? " old" : "";
  const news = record.t === t ? (record.older ? `replaces ${record.older} here` : "new here")
    : record.replacedAt === t ? `replaced by ${record.newer} here` : record.newer ? `replaced by ${record.newer} before` : "";
  const mark = { " fresh": "+ ", " replaced": "\u2212 " }[state] || "";
  return make("div", { className: `record ${matched ? "matched" : "unmatched"}${state}`, id: `${prefix}-${record.id}` },
    make("span", { className: "id" }, `${mark}${record.id} `), make("span", { className: "content" }, data(record.content)),
    make("div", { className: "place" }, data(placeOf(record)), news ? ` · ${news}` : "",
      record.from.length ? ` · from ${record.from.join(", ")}` : ""),
    fate ? make("div", { className: `fate ${matched ? "found" : "none"}` }, data(fate)) : "");
}

// Owner by owner: the Writer's records left, the reference's right, with a line from each to its partner.
function memory(trajectory, network, write, t, only) {
  const ours = stateAt(trajectory.records, t);
  const theirs = network.references ? stateAt(network.references, t) : null;
  const changed = (one) => one.t === t || one.replacedAt === t;
  const partner = new Map(), wanted = new Map();
  for (const [mine, gold, kappa] of write.pairs || []) { partner.set(mine, [gold, kappa]); wanted.set(gold, [mine, kappa]); }
  const allGold = network.references ? new Map(stateAt(network.references, Infinity).map((one) => [one.id, one])) : new Map();
  const saidBy = new Map();
  for (const record of ours) {
    for (const gold of (trajectory.near || {})[record.id] || []) {
      if (!partner.has(record.id) && !saidBy.has(gold[0])) saidBy.set(gold[0], [record, gold[1]]);
    }
  }
  const fateOfOurs = (record) => {
    if (!theirs) return "";
    if (partner.has(record.id)) return `matches reference ${partner.get(record.id)[0]}, κ ${number(partner.get(record.id)[1], 2)}`;
    const near = ((trajectory.near || {})[record.id] || [])[0];
    if (!near) return "no match: no reference record says anything like it";
    const gold = allGold.get(near[0]);
    if (gold.t > t) return `no match: reference ${gold.id} says it only at position ${gold.t}`;
    const wrong = misplaced(record, gold), like = `like reference ${gold.id} (κ ${number(near[1], 2)})`;
    return wrong ? `no match: ${like}, but ${wrong}` : `no match: ${like}, but ${wanted.has(gold.id) ? `${wanted.get(gold.id)[0]} is matched to reference ${gold.id} already` : `reference ${gold.id} has a better partner`}`;
  };
  const fateOfTheirs = (record) => {
    if (wanted.has(record.id)) return `found as ${wanted.get(record.id)[0]}, κ ${number(wanted.get(record.id)[1], 2)}`;
    if (!saidBy.has(record.id)) return "missing";
    const [said, kappa] = saidBy.get(record.id), wrong = ["owner", "source", "layer"].find((name) => said[name] !== record[name]);
    const where = { owner: `about ${said.owner}`, source: `by ${said.source}`, layer: `in ${LAYERS[said.layer] || said.layer}` }[wrong];
    return where ? `missing: ${said.id} is like it (κ ${number(kappa, 2)}), but ${where}` : "missing";
  };
  const owners = [...new Set([...ours, ...(theirs || [])].map((one) => one.owner))].sort((a, b) => (a === "GROUP") - (b === "GROUP") || (a < b ? -1 : 1));
  const shown = [];
  for (const owner of owners) {
    const keep = (one) => one.owner === owner && (!only || changed(one));
    const left = ours.filter(keep), right = theirs ? theirs.filter(keep) : [];
    if (!left.length && !right.length) continue;
    const score = write.owners[owner];
    const block = make("div", { className: "owner" },
      make("h4", {}, data(owner), score === undefined ? "" : make("span", { className: "quiet" }, ` F ${number(score, 2)}`)),
      make("div", { className: "side" }, make("div", { className: "quiet" }, "Writer"), left.map((one) => recordNode(one, t, fateOfOurs(one), partner.has(one.id), "ours")), left.length ? "" : make("p", { className: "quiet" }, "nothing")),
      make("div", { className: "side" }, theirs ? [make("div", { className: "quiet" }, "Reference"), right.map((one) => recordNode(one, t, fateOfTheirs(one), wanted.has(one.id), "theirs")), right.length ? "" : make("p", { className: "quiet" }, "nothing")] : ""));
    shown.push(block);
    if (theirs) connect(block, left.filter((one) => partner.has(one.id)).map((one) => [one.id, ...partner.get(one.id)]));
  }
  const before = ours.filter((one) => one.t < t).length;
  const counts = make("p", { className: "quiet" }, `${before} records before, ${ours.length} after. Green: written here. Red and struck: replaced here. Struck grey: replaced before. A line joins a record to the reference record it was matched with; a red edge means no match.`);
  return [counts, shown.length ? shown : make("p", { className: "quiet" }, only ? "Nothing changed here." : "The memory is empty.")];
}

function connect(block, pairs) {
  const picture = draw("svg", { "aria-hidden": "true" });
  const paths = pairs.map(([mine, gold, kappa]) => [mine, gold, draw("path", {}, draw("title", {}, `κ ${kappa}`))]);
  picture.append(...paths.map(([, , path]) => path));
  block.append(picture);
  const place = () => {
    const base = block.getBoundingClientRect();
    for (const [mine, gold, path] of paths) {
      const from = block.querySelector(`#ours-${mine}`), to = block.querySelector(`#theirs-${gold}`);
      if (!from || !to) { path.removeAttribute("d"); continue; }
      const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
      const [x1, y1, x2, y2] = [a.right - base.left, a.top + a.height / 2 - base.top, b.left - base.left, b.top + b.height / 2 - base.top];
      path.setAttribute("d", `M${x1} ${y1}C${x1 + 45} ${y1} ${x2 - 45} ${y2} ${x2} ${y2}`);
    }
  };
  for (const [mine, gold, path] of paths) {
    const both = [`#ours-${mine}`, `#theirs-${gold}`].map((name) => block.querySelector(name)).filter(Boolean);
    const light = (on) => () => { [path, ...both].forEach((one) => one.classList.toggle("lit", on)); };
    for (const one of both) { one.addEventListener("pointerenter", light(true)); one.addEventListener("pointerleave", light(false)); }
  }
  new ResizeObserver(() => requestAnimationFrame(place)).observe(block);
}
