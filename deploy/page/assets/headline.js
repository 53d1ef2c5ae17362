// What came of it: each institution alone and together.
const DENSE = 20, SCROLLED = 60; // institutions: from here rows are low; from here the table scrolls
const STATES = { running: "running", finished: "finished", failed: "failed", "gave-up": "gave up", stopped: "stopped" };

// Who gains and who loses, in a line. Those that cannot be compared are not counted.
const gainText = (signs, all) => {
  const [better, worse] = [signs.filter((sign) => sign > 0).length, signs.filter((sign) => sign < 0).length];
  const compared = plural(signs.length, signs.length < all ? "compared institution" : "institution");
  if (signs.length === 1) return `${compared} ${better ? "gains" : worse ? "loses" : "neither gains nor loses"} by training together`;
  if (better === signs.length) return `All ${compared} gain by training together`;
  const losers = worse ? `, ${worse} ${worse === 1 ? "loses" : "lose"}` : "";
  return `${better || "None"} of ${compared} ${better > 1 ? "gain" : "gains"} by training together${losers}`;
};

// Which institutions a mean is over, where it is not over all of them.
const partOf = (view) => {
  const shared = view.institutions.filter((one) => known(one.test)).length;
  return shared && shared < view.institutions.length ? ` over ${shared} of ${plural(view.institutions.length, "institution")}` : "";
};

const headlineText = (view) => {
  const signs = view.institutions.map(signOf).filter(known);
  if (signs.length) return gainText(signs, view.institutions.length);
  if (known(view.test)) return `Mean test accuracy ${percent(view.test)}${partOf(view)}`;
  if (!view.played) return "The first round has not ended yet";
  return `${plural(view.played, "round")} with ${plural(view.institutions.length, "institution")}; no test accuracy was shared`;
};

const figures = (view) => {
  const signs = view.institutions.map(signOf).filter(known);
  const [better, worse] = [signs.filter((sign) => sign > 0).length, signs.filter((sign) => sign < 0).length];
  const equal = signs.length - better - worse, rounded = view.institutions.some((one) => one.step && known(one.alone));
  const best = view.best_round ? `${partOf(view)} at the best validation, round ${view.best_round} of ${view.planned}`.trim() : null;
  return [
    figure("Mean test accuracy", percent(view.test), best, true),
    figure("Alone", percent(meanAlone(view), "not measured"), known(view.alone) ? "the same model without exchange" : [command("--compare local"), " of fedgt run measures it"]),
    signs.length ? figure("Mean difference", points(meanGain(view)),
      `points${signs.length < view.institutions.length ? ` over ${plural(signs.length, "institution")}` : ""}; ${better} ${better === 1 ? "gains" : "gain"}, ${worse} ${worse === 1 ? "loses" : "lose"}${equal ? `, ${equal} ${rounded ? "equal or too rounded to tell" : "equal"}` : ""}`) : null,
    figure("Mean validation accuracy", percent(view.val), null),
    known(view.privacy?.spent?.epsilon_coordinate_total) ? figure("Privacy spent", `ε ${significant(view.privacy.spent.epsilon_coordinate_total)}`,
      view.privacy.spent.private ? "per coordinate, over all uploads" : "not private: the noise was seeded") : null,
  ];
};

// From a round number below all values to one above, with three to six ticks; ten points or more,
// so that a small difference looks small.
const axisOf = (values) => {
  const span = Math.max(...values) - Math.min(...values), room = Math.max(0, 0.1 - span) / 2;
  const least = Math.max(0, Math.min(...values) - room), most = Math.min(1, Math.max(...values) + room);
  const step = [0.02, 0.05, 0.1].find((one) => (most - least) / one <= 4) ?? 0.2;
  const first = Math.max(0, Math.floor(least / step + 1e-9)), last = Math.max(first + 1, Math.ceil(most / step - 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  const low = ticks[0], high = ticks[ticks.length - 1];
  return { ticks, place: (value) => `${(100 * (value - low)) / (high - low)}%` };
};

// Who gains and who loses most, in words: rows are in the order of their gain.
const extremes = (rows) => {
  const compared = rows.filter((one) => known(one.gain));
  if (compared.length < 2) return null;
  const [first, last] = [compared[0], compared[compared.length - 1]];
  const part = (text, one) => [text, shortName(one.name), `, ${points(one.gain)} points. `];
  return el("p", {}, signOf(first) > 0 ? part("Largest gain: ", first) : null, signOf(last) < 0 ? part("Largest loss: ", last) : null,
    el("span", { class: "quiet" }, "One run with one seed: small differences can be chance."));
};

// Those that can be compared first, largest gain first; then the others, highest accuracy first.
const byGain = (view) => view.institutions.map((one) => ({ ...one, gain: gainOf(one) }))
  .sort((a, b) => (b.gain ?? -9) - (a.gain ?? -9) || (b.test ?? -9) - (a.test ?? -9) || (a.name < b.name ? -1 : 1));

const dumbbells = (view, rows) => {
  const values = rows.flatMap((one) => [one.test, one.alone]).filter(known);
  if (!values.length) return el("p", { class: "quiet" }, "No institution shared its test accuracy.");
  const axis = axisOf(values), withAlone = rows.some((one) => known(one.alone));
  const lines = () => axis.ticks.map((value) => el("span", { class: "grid", style: { left: axis.place(value) } }));
  const track = (one) => el("div", { class: "track", "aria-hidden": "true" }, lines(),
    known(one.gain) ? el("span", { class: one.gain < 0 ? "bar loss" : "bar", style: {
      left: axis.place(Math.min(one.test, one.alone)),
      right: `calc(100% - ${axis.place(Math.max(one.test, one.alone))})` } }) : null,
    known(one.alone) ? el("span", { class: "dot", style: { left: axis.place(one.alone) } }) : null,
    known(one.test) ? el("span", { class: "dot together", style: { left: axis.place(one.test) } }) : null);
  const line = (one, total) => el("tr", { class: total ? "total" : null },
    el("th", { scope: "row" }, total ? one.name : shortName(one.name)),
    el("td", { class: "plot" }, track(one)),
    withAlone ? el("td", {}, percent(one.alone, "–")) : null,
    el("td", {}, measured(one, one.test)),
    withAlone ? el("td", { class: [null, "up", "down"].at(signOf(one) ?? 0) },
      known(one.gain) ? `${one.step ? "≈\u00a0" : ""}${points(one.gain)}` : "–") : null);
  const ticks = el("div", { class: "track", "aria-hidden": "true" },
    axis.ticks.map((value) => el("span", { class: "tick", style: { left: axis.place(value) } }, `${Math.round(100 * value)} %`)));
  const mean = { name: "mean", test: view.test, alone: meanAlone(view), gain: meanGain(view) };
  return el("table", { class: rows.length > DENSE ? "dumbbell dense" : "dumbbell" },
    el("caption", {}, withAlone ? "Test accuracy of every institution, largest gain first" : "Test accuracy of every institution"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "institution"),
      el("th", { class: "plot" }, ticks), withAlone ? el("th", { scope: "col" }, "alone") : null,
      el("th", { scope: "col" }, "together"), withAlone ? el("th", { scope: "col" }, "points") : null)),
    el("tbody", {}, rows.map((one) => line(one, false)), line(mean, true)));
};

const otherMethods = (view) => {
  if (view.others.every((other) => other.method === "local")) return null;
  const rows = [{ title: view.method_title, test: view.test, best_round: view.best_round }, ...view.others]
    .sort((a, b) => (b.test ?? -1) - (a.test ?? -1));
  return el("div", {}, el("h3", {}, "Methods on the same data"),
    table("Mean over institutions", [{ title: "method" }, { title: "test accuracy" }, { title: "best round" }],
      rows.map((other) => [other.title, percent(other.test), String(other.best_round)]), { class: "narrow" }));
};

sections.push((view) => {
  document.title = `${view.run}: ${headlineText(view)}`;
  byId("title").textContent = headlineText(view);
  const bad = ["failed", "gave-up", "stopped"].includes(view.status);
  const rows = byGain(view);
  const left = known(view.seconds_left) ? `, about ${duration(view.seconds_left)} left` : "";
  fill(byId("meta"), el("li", {}, el("span", { class: bad ? "chip bad" : "chip", id: "status" }, STATES[view.status])),
    el("li", {}, "run ", fullName(view.run)), el("li", {}, `method ${view.method_title}`),
    el("li", {}, plural(view.institutions.length, "institution")),
    el("li", {}, `round ${view.played} of ${view.planned}${left}`),
    el("li", {}, `${duration(view.seconds)} of rounds`), el("li", {}, `started ${when(view.started)}`));
  fill(byId("headline"),
    view.status === "running" ? el("progress", { max: view.planned, value: view.played, "aria-label": "rounds played" }) : null,
    view.reason ? el("p", { class: "bad" }, view.reason) : null,
    view.status === "stopped" ? el("p", { class: "bad" }, "The run stopped without a result. Continue it with ", command("fedgt resume"), ", or ", command("fedgt run --resume"), ".") : null,
    el("dl", { class: "figures" }, figures(view)),
    extremes(rows),
    view.institutions.some((one) => known(one.alone)) ? el("p", { class: "key", "aria-hidden": "true" },
      el("span", {}, el("i"), "alone"), el("span", {}, el("i", { class: "together" }), "together")) : null,
    rows.length > SCROLLED ? scrolling("test accuracy of every institution", dumbbells(view, rows)) : dumbbells(view, rows),
    otherMethods(view),
    view.warnings.length ? el("div", {}, el("h3", {}, "Warnings"), el("ul", { class: "notes" },
      view.warnings.map((note) => el("li", {}, note.text, " ", el("span", { class: "quiet" }, roundsOf(note)))))) : null);
});
