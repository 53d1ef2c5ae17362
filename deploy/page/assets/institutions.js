// Every institution: what it shared, how long it took, what it sent; problems, each said once.
const MOST_NAMED = 12; // institutions of one note
const troublesOf = (order) => {
  const found = new Map();
  const add = (kind, text, name, rounds) => {
    const key = `${kind}: ${text}`;
    if (!found.has(key)) found.set(key, { kind, text, of: [] });
    found.get(key).of.push([name, rounds]);
  };
  for (const one of order) {
    if (one.missed.length) add("missed", "no usable update in these rounds", one.name, `${plural(one.missed.length, "round")}: ${ranges(one.missed)}`);
    for (const note of one.left_out) add("left out", note.text, one.name, roundsOf(note));
    for (const note of one.warnings) add("warning", note.text, one.name, roundsOf(note));
  }
  return ["missed", "left out", "warning"].flatMap((kind) => [...found.values()].filter((one) => one.kind === kind));
};

const troubleLine = ({ kind, text, of }) => el("li", {},
  el("strong", { class: kind === "warning" ? null : "bad" }, `${kind}: `), text, el("br"),
  of.slice(0, MOST_NAMED).flatMap(([name, rounds], index) => [index ? ", " : null, fullName(name), rounds ? el("span", { class: "quiet" }, ` (${rounds})`) : null]),
  of.length > MOST_NAMED ? ` and ${plural(of.length - MOST_NAMED, "other")}` : null);

const sharedMetrics = (view, order) => {
  const names = [...new Set(order.flatMap((one) => Object.keys(one.metrics)))].sort();
  return scrolling("all shared metrics", table("In the last round that each took part in",
    [{ title: "institution" }, ...names.map((name) => ({ title: name.replaceAll("_", " ") }))],
    order.map((one) => [shortName(one.name), ...names.map((name) => known(one.metrics[name]) ? significant(one.metrics[name]) : NOT_SHARED)])));
};

sections.push((view) => {
  const order = [...view.institutions].sort((a, b) => (a.name < b.name ? -1 : 1));
  const columns = ["institution", "validation", "test", "loss", "rounds", "s per round", "slowest, s", "sent", "received", "missed", "left out", "warnings"];
  const count = (notes) => notes.reduce((sum, note) => sum + note.count, 0);
  const main = table("Accuracies in the best round (no answer: it took no part in that round), training loss in its last", columns.map((title) => ({ title })), order.map((one) => [
    shortName(one.name), measured(one, one.val), measured(one, one.test), known(one.metrics.train_loss) ? decimals(one.metrics.train_loss) : NOT_SHARED,
    String(one.rounds), decimals(one.seconds, 2), decimals(one.slowest, 2), sized(one.bytes_up), sized(one.bytes_down),
    String(one.missed.length), String(count(one.left_out)), String(count(one.warnings))]));
  const troubles = troublesOf(order);
  const silent = order.filter((one) => one.rounds && !one.shares).length;
  const rounded = order.map((one) => one.step).filter(known);
  fill(byId("institutions-body"),
    silent ? el("p", {}, `${plural(silent, "institution")} ${silent === 1 ? "shares" : "share"} no accuracies with the coordinator and ${silent === 1 ? "is" : "are"} not in the means.`) : null,
    rounded.length ? el("p", {}, `${plural(rounded.length, "institution")} ${rounded.length === 1 ? "rounds" : "round"} shared accuracies to steps of ${Math.round(100 * Math.max(...rounded))} points, as policies say unless they are changed.`) : null,
    scrolling("figures of every institution", main),
    el("details", { open: byId("institutions-body").querySelector("details")?.open },
      el("summary", {}, "All shared metrics"), sharedMetrics(view, order)),
    troubles.length ? el("h3", { style: { marginTop: "1.4rem" } }, "Problems and warnings") : el("p", { class: "quiet" }, "No missed rounds, no updates left out, no warnings."),
    troubles.length ? el("ul", { class: "notes" }, troubles.map(troubleLine)) : null);
});
