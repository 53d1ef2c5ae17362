// Every institution: what it shared, how long it took, what it sent, what went wrong.
const institutionNotes = (one) => {
  const found = [];
  if (one.missed.length) found.push(el("span", {}, `missed ${plural(one.missed.length, "round")}: ${ranges(one.missed)}`));
  for (const note of one.left_out) found.push(el("span", {}, el("span", { class: "bad" }, "left out: "), note.text, el("span", { class: "quiet" }, ` (${roundsOf(note)})`)));
  for (const note of one.warnings) found.push(el("span", {}, "warning: ", note.text, el("span", { class: "quiet" }, ` (${roundsOf(note)})`)));
  return found;
};

const sharedMetrics = (view, order) => {
  const names = [...new Set(order.flatMap((one) => Object.keys(one.metrics)))].sort();
  return scrolling("all that institutions shared", table("In the last round that each took part in",
    [{ title: "institution" }, ...names.map((name) => ({ title: name.replaceAll("_", " ") }))],
    order.map((one) => [shortName(one.name), ...names.map((name) => known(one.metrics[name]) ? significant(one.metrics[name]) : NOT_SHARED)])));
};

sections.push((view) => {
  const order = [...view.institutions].sort((a, b) => (a.name < b.name ? -1 : 1));
  const columns = ["institution", "validation", "test", "loss", "rounds", "s a round", "slowest", "sent", "received", "missed", "left out", "warnings"];
  const count = (notes) => notes.reduce((sum, note) => sum + note.count, 0);
  const main = table("Accuracies in the best round (no answer: it was not there); loss of the last", columns.map((title) => ({ title })), order.map((one) => [
    shortName(one.name), measured(one, one.val), measured(one, one.test), known(one.metrics.train_loss) ? decimals(one.metrics.train_loss) : NOT_SHARED,
    String(one.rounds), decimals(one.seconds, 2), decimals(one.slowest, 2), sized(one.bytes_up), sized(one.bytes_down),
    String(one.missed.length), String(count(one.left_out)), String(count(one.warnings))]));
  const troubled = order.map((one) => [one, institutionNotes(one)]).filter(([, notes]) => notes.length);
  const silent = order.filter((one) => one.rounds && !one.shares).length;
  fill(byId("institutions-body"),
    silent ? el("p", {}, `${plural(silent, "institution")} ${silent === 1 ? "shares" : "share"} no accuracies with the coordinator: ${silent === 1 ? "it counts" : "they count"} for no mean.`) : null,
    scrolling("figures of every institution", main),
    el("details", { open: byId("institutions-body").querySelector("details")?.open },
      el("summary", {}, "All that institutions shared"), sharedMetrics(view, order)),
    troubled.length ? el("h3", { style: { marginTop: "1.4rem" } }, "What went wrong") : el("p", { class: "quiet" }, "Nobody missed a round, nothing was left out, and no institution warned."),
    troubled.length ? el("ul", { class: "notes" }, troubled.map(([one, notes]) => el("li", {}, el("strong", {}, fullName(one.name)), el("br"),
      notes.flatMap((note, index) => index ? [el("br"), note] : [note])))) : null);
});
