const summary = read("summary");
const sections = ["curves", "evaluation", "trajectories", "recipe"];
const part = (name) => document.getElementById(`part-${name}`); // not the address itself: the browser would scroll to it
const viewer = new Viewer(part("trajectories"), summary);
const built = new Set();

const build = {
  curves: (root) => root.append(...curves(summary)),
  evaluation: (root) => {
    const tables = (found) => found.map((one) => [make("h2", {}, data(one.title)), one.note ? make("p", { className: "quiet" }, data(one.note)) : "", table(one.head, one.rows, "evaluation")]);
    root.append(...tables(summary.tables).flat(), ...tables(summary.cost).flat());
    if (!summary.tables.length) root.prepend(make("p", {}, "No evaluation rows in this run's folder yet: eval/rows.jsonl."));
  },
  trajectories: () => viewer.show(),
  recipe: (root) => root.append(summary.recipe ? make("pre", { tabindex: 0 }, summary.recipe) : make("p", {}, "No recipe is saved with this run.")),
};

async function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const shown = sections.includes(name) ? name : "curves";
  const other = part(shown).hidden;
  for (const one of sections) part(one).hidden = one !== shown;
  if (other) scrollTo(0, 0);
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.hash === `#${shown}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown === "trajectories" && rest.length === 3) {
    viewer.open(...rest.map(Number));
    if (built.has(shown)) await viewer.show();
  }
  if (!built.has(shown)) {
    built.add(shown);
    await build[shown](part(shown));
  }
}

document.getElementById("notes").append(...summary.notes.map((note) => make("p", { className: "note" }, data(note))));
addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  const busy = event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT", "TEXTAREA"].includes(event.target.tagName);
  if (busy || part("trajectories").hidden || !viewer.chosen) return;
  const does = { j: () => viewer.step(1), k: () => viewer.step(-1), l: () => viewer.turn(1), h: () => viewer.turn(-1), w: () => viewer.go(viewer.ranked[0]) }[event.key];
  if (does) { event.preventDefault(); does(); }
});
route().then(() => { document.documentElement.dataset.ready = String(Math.round(performance.now())); });
