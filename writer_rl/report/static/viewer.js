// The viewer: a trajectory is chosen by round, network and g, a position inside it, all of it kept in the address.
const PARTS = [["valid", "validity"], ["phi", "Phi"], ["worst_owner", "worst owner"], ["chain", "chain"], ["mem", "memory"], ["penalty", "penalty"], ["qa_term", "QA term"], ["return", "return"]];
const FATES = { applied: ["applied", "good", ""], applied_as_add: ["invalid UPDATE, written as ADD", "warm", "rescued"], rejected: ["rejected", "bad", "rejected"] };

class Viewer {
  constructor(root, summary) {
    this.root = root;
    this.index = summary.index;
    this.weights = summary.weights;
    this.networks = read("networks");
    this.blocks = new Map();
    this.only = false;
    this.all = this.index.flatMap(({ round, trajectories }) => trajectories.map((entry, place) => ({ ...entry, round, place })));
    this.ranked = [...this.all].sort((a, b) => a.mean - b.mean);
    this.chosen = this.ranked[0];
    this.t = this.worstPosition(this.chosen);
  }

  worstPosition(entry) { return entry ? entry.returns.indexOf(Math.min(...entry.returns)) : 0; }

  block(round) {
    if (!this.blocks.has(round)) this.blocks.set(round, unpack(`round-${round}`));
    return this.blocks.get(round);
  }

  get address() { return `#trajectories/${this.chosen.round}/${this.chosen.place}/${this.t}`; }

  open(round, place, t) {
    const entry = this.all.find((one) => one.round === round && one.place === place);
    if (!entry) return;
    this.chosen = entry;
    this.t = Math.max(0, Math.min(entry.returns.length - 1, t));
  }

  async go(entry, t = this.worstPosition(entry)) {
    this.chosen = entry;
    this.t = t;
    history.replaceState(null, "", this.address);
    await this.show();
  }

  step(by) {
    const t = this.t + by;
    if (t >= 0 && t < this.chosen.returns.length) this.go(this.chosen, t);
  }

  siblings() { return this.all.filter((one) => one.round === this.chosen.round && one.network === this.chosen.network && one.visit === this.chosen.visit); }

  turn(by) {
    const group = this.siblings(), next = group[group.indexOf(this.chosen) + by];
    if (next) this.go(next, Math.min(this.t, next.returns.length - 1));
  }

  async show() {
    const chosen = this.chosen, t = this.t, block = chosen && await this.block(chosen.round);
    if (chosen !== this.chosen || t !== this.t) return; // another one was asked for meanwhile
    const focus = document.activeElement && document.activeElement.id;
    const opened = new Set([...this.root.querySelectorAll("details[open]")].map((one) => one.id));
    if (!this.chosen) {
      this.root.replaceChildren(make("p", {}, "No trajectory has been traced yet."));
      return;
    }
    const trajectory = block[this.chosen.place];
    this.first = block[this.siblings()[0].place];
    this.root.replaceChildren(this.ranking(), this.controls(), this.why(), this.positions(trajectory), ...this.position(trajectory));
    for (const id of opened) { const found = document.getElementById(id); if (found) found.open = true; }
    const again = focus && document.getElementById(focus);
    if (again && this.root.contains(again)) again.focus({ preventScroll: true });
  }

  ranking() {
    const rows = this.ranked.slice(0, 10).map((entry) => make("tr", {},
      make("td", {}, make("button", { onclick: async () => { await this.go(entry); document.getElementById("why").scrollIntoView(); } }, `round ${entry.round}, g ${entry.g}`)),
      make("td", { className: "number" }, number(entry.mean, 2)), make("td", {}, data(entry.network)), make("td", {}, data(entry.why[1] || entry.why[0]))));
    return make("details", { id: "ranking" }, make("summary", {}, `The ${rows.length} worst trajectories of the run`),
      make("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": "Worst trajectories" }, make("table", {}, make("thead", {}, make("tr", {}, ["", "Return", "Network", "What went wrong"].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows))));
  }

  select(id, label, options, value, change) {
    return make("label", {}, label, make("select", { id, onchange: (event) => change(Number(event.target.value)) },
      options.map(([key, text]) => make("option", { value: key, selected: key === value }, text))));
  }

  controls() {
    const inRound = this.all.filter((one) => one.round === this.chosen.round);
    const groups = inRound.filter((one, i) => inRound.findIndex((other) => other.network === one.network && other.visit === one.visit) === i);
    const own = groups.findIndex((one) => one.network === this.chosen.network && one.visit === this.chosen.visit);
    const worst = (entries) => entries.reduce((a, b) => (b.mean < a.mean ? b : a));
    const best = (entries) => entries.reduce((a, b) => (b.mean > a.mean ? b : a));
    const jump = (id, text, entry) => make("button", { id, onclick: () => this.go(entry) }, text);
    return make("div", {},
      make("div", { className: "controls" },
        jump("worst-run", "Worst of the run", this.ranked[0]), jump("worst-round", "Worst of this round", worst(inRound)), jump("best-round", "Best of this round", best(inRound))),
      make("div", { className: "controls" },
        this.select("round", "Round", this.index.map(({ round, trajectories }) => [round, `${round} (${number(trajectories.reduce((sum, one) => sum + one.mean, 0) / trajectories.length, 2)})`]), this.chosen.round,
          (round) => this.go(worst(this.all.filter((one) => one.round === round)))),
        this.select("network", "Network", groups.map((one, i) => [i, `${one.network}${one.visit ? `, visit ${one.visit}` : ""}`]), own, (i) => this.go(groups[i])),
        this.select("trajectory", "Trajectory", this.siblings().map((one) => [one.place, `g ${one.g} (${number(one.mean, 2)})`]), this.chosen.place,
          (place) => this.go(this.all.find((one) => one.round === this.chosen.round && one.place === place))),
        this.select("position", "Position", this.chosen.returns.map((value, t) => [t, `${t} (${number(value, 2)})`]), this.t, (t) => this.go(this.chosen, t))),
      make("p", { className: "quiet keys" }, make("kbd", {}, "j"), " ", make("kbd", {}, "k"), " next and previous position, ", make("kbd", {}, "l"), " ", make("kbd", {}, "h"), " next and previous trajectory, ", make("kbd", {}, "w"), " worst of the run"));
  }

  why() {
    const rank = this.ranked.indexOf(this.chosen) + 1;
    return make("div", { className: "why", id: "why" },
      make("h2", {}, `Round ${this.chosen.round}, `, data(this.chosen.network), `, trajectory ${this.chosen.g}`),
      make("div", { className: "quiet" }, `number ${rank} of ${this.ranked.length} from the worst`),
      make("ul", {}, this.chosen.why.map((sentence) => make("li", {}, data(sentence)))));
  }

  positions(trajectory) {
    const head = ["t", ...PARTS.map(([, label]) => label), "advantage", "output"];
    const rows = trajectory.writes.map((write, t) => make("tr", { "aria-selected": String(t === this.t), onclick: () => this.go(this.chosen, t) },
      make("td", {}, make("button", { id: `at-${t}`, "aria-current": String(t === this.t), "aria-label": `Position ${t}` }, String(t))),
      PARTS.map(([name]) => make("td", { className: "number" }, number(write.reward[name], 2))),
      make("td", { className: "number" }, write.advantage === null ? "left out" : number(write.advantage, 2)),
      make("td", {}, write.parse === "strict" ? `${write.fates.length} actions` : `not strict JSON`, write.finish === "length" ? ", cut off" : "")));
    return make("div", { className: "scroll", tabindex: 0, role: "region", "aria-label": "Reward by position" },
      make("table", { className: "positions" }, make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows)));
  }

  position(trajectory) {
    const write = trajectory.writes[this.t], network = this.networks[this.chosen.network];
    const segment = network.segments[this.t];
    const shared = write.prompt ? [...(this.first.writes[this.t].prompt[1] || "")].slice(0, write.prompt[0]).join("") + write.prompt[1] : null;
    return [
      make("h2", {}, `Position ${this.t}: session `, data(network.sessions[this.t])),
      make("div", { className: "columns" },
        make("div", {}, make("h3", {}, "Segment"), segment ? segment.messages.map((message) => make("div", { className: "message" }, make("span", { className: "id" }, message[0]),
          make("div", {}, make("b", { title: message[2] }, data(message[1])), " ", data(message[3])))) : make("p", { className: "quiet" }, "Not in this trace."),
        make("details", { id: "prompt" }, make("summary", {}, `Prompt (${write.tokens[0]} tokens)`), shared === null ? make("p", { className: "quiet" }, "Not in this trace.") : make("pre", { tabindex: 0, dir: "auto" }, shared))),
        make("div", {}, this.completion(write), this.reward(write))),
      make("h3", {}, "Memory before and after"),
      ...this.memory(trajectory, network, write),
      this.questions(write, network),
    ];
  }

  completion(write) {
    const cut = write.finish === "length" ? make("span", { className: "badge bad" }, "cut off at the length limit") : "";
    const over = write.over ? make("span", { className: "badge bad" }, "over the action budget") : "";
    const parsed = write.parse === "strict" ? make("span", { className: "badge good" }, "strict JSON") : make("span", { className: "badge bad" }, `not strict JSON (${write.parse}): nothing is written`);
    const attempts = write.parse === "strict" ? JSON.parse(write.text).actions : [];
    const actions = attempts.map((attempt, i) => actionNode(attempt, write.fates[i]));
    return make("div", {}, make("h3", {}, "Completion"), make("div", {}, parsed, cut, over), write.error ? make("p", {}, data(write.error)) : "",
      actions, make("details", { id: "text", open: write.parse !== "strict" }, make("summary", {}, `Text (${write.tokens[1]} tokens)`), make("pre", { tabindex: 0, dir: "auto" }, write.text)));
  }

  reward(write) {
    const value = (name) => write.reward[name], weights = this.weights;
    const rows = [
      ["validity", weights.w_valid * value("valid"), `${weights.w_valid} × ${number(value("valid"), 2)}: JSON ${number(value("json"), 2)}, schema ${number(value("schema"), 2)}, no repeats ${number(value("dup"), 2)}, stop ${number(value("stop"), 2)}`],
      ["memory", (value("return") - weights.w_valid * value("valid") - value("penalty") - value("qa_term")), `Phi ${number(value("phi"), 2)} (worst owner ${number(value("worst_owner"), 2)}), chain ${number(value("chain"), 2)}`],
      ["penalty", value("penalty"), ["json", "act", "count", "length"].filter((name) => value(`penalty_${name}`)).map((name) => ({ json: "no strict JSON", act: "an invalid action", count: "over budget", length: "length limit" }[name])).join(", ") || "none due"],
      ["QA term", value("qa_term"), value("qa_gain") === undefined ? "no judged question" : `gain ${number(value("qa_gain"), 2)} of the whole trajectory, discounted`],
    ];
    const bar = (one) => make("span", { className: `bar${one < 0 ? " minus" : ""}` });
    const nodes = rows.map(([name, share, told]) => {
      const node = bar(share);
      node.style.width = `${Math.min(100, Math.abs(share) * 160)}px`;
      return make("tr", {}, make("td", {}, name), make("td", { className: "number" }, number(share, 3)), make("td", {}, node, " ", data(told)));
    });
    return make("div", {}, make("h3", {}, `Return ${number(value("return"), 3)}`), make("div", { className: "scroll" }, make("table", {}, make("tbody", {}, nodes))));
  }

  memory(trajectory, network, write) {
    if (!trajectory.records) return [make("p", { className: "quiet" }, "The trace does not say what was read, and the networks are not at hand: the states cannot be built again.")];
    const missing = network.references ? "" : make("p", { className: "note" }, "No reference state: the networks are not at hand, or have no teacher.");
    const toggle = make("button", { id: "only", "aria-pressed": String(this.only), onclick: () => { this.only = !this.only; this.show(); } }, "Only what changed here");
    return [missing || "", make("div", { className: "controls" }, toggle), ...memory(trajectory, network, write, this.t, this.only).flat()];
  }

  questions(write, network) {
    if (!write.questions) return "";
    const rows = write.questions.map((one) => [...(network.questions[one.question] || [one.question, ""]), one.answer, one.verdict, one.without]);
    return make("div", {}, make("h3", {}, "Terminal questions"), rows.length ? table(["Question", "Gold", "Answer", "With the memory", "Without"], rows) : make("p", { className: "quiet" }, "None."));
  }
}

function actionNode(attempt, [fate, reason, detail, id]) {
  const [label, tone, className] = reason && fate === "applied" ? ["applied", "warm", ""] : FATES[fate] || [fate, "plain", ""];
  const isAction = attempt !== null && typeof attempt === "object" && typeof attempt.action === "string";
  const place = isAction && attempt.action === "ADD" ? `about ${attempt.owner}, by ${attempt.source}, ${LAYERS[attempt.layer] || attempt.layer}, ${attempt.utype}` : isAction && attempt.action === "UPDATE" ? `replaces ${attempt.entry_id}` : "";
  return make("div", { className: `action ${className}` },
    make("span", { className: `badge ${tone}` }, label), make("b", {}, data(isAction ? attempt.action : "?")), id ? ` ${id} ` : " ",
    data(isAction && typeof attempt.content === "string" ? attempt.content : isAction && attempt.action === "NOOP" ? "" : JSON.stringify(attempt)),
    place ? make("div", { className: "place" }, data(place)) : "",
    reason ? make("div", { className: "place" }, make("b", {}, reason.replaceAll("_", " ")), ": ", data(detail || "")) : "");
}
