// What came of it: each institution alone and together.
const STATES = { running: "running", finished: "finished", failed: "failed", "gave-up": "gave up", stopped: "stopped" };

const headlineText = (view) => {
  const gains = view.institutions.map(gainOf).filter(known);
  if (gains.length) {
    const better = gains.filter((gain) => gain > 0).length;
    const count = better === gains.length ? "All" : `${better} of`;
    return `${count} ${plural(gains.length, "institution")} ${better === 1 && gains.length > 1 ? "gains" : "gain"} by training together`;
  }
  if (known(view.test)) return `The federation reaches ${percent(view.test)} on test nodes`;
  if (!view.played) return "The first round has not ended yet";
  return `${plural(view.played, "round")} with ${plural(view.institutions.length, "institution")}; no test accuracy was shared`;
};

const figures = (view) => {
  const gains = view.institutions.map(gainOf).filter(known);
  const worse = gains.filter((gain) => gain < 0).length;
  const best = view.best_round ? `round ${view.best_round} of ${view.planned}` : null;
  return [
    figure("Mean test accuracy", percent(view.test), best ? `at the best validation, ${best}` : null, true),
    figure("Alone", percent(view.alone, "not measured"), known(view.alone) ? "the same model without exchange" : "fedgt run --compare local measures it"),
    gains.length && known(view.alone) && known(view.test) ? figure("Difference", points(view.test - view.alone),
      `points; ${worse ? `${plural(worse, "institution")} ${worse === 1 ? "loses" : "lose"}` : "nobody loses"}`) : null,
    figure("Mean validation", percent(view.val), null),
    known(view.privacy?.spent?.epsilon_coordinate_total) ? figure("Privacy spent", `ε ${significant(view.privacy.spent.epsilon_coordinate_total)}`,
      view.privacy.spent.private ? "of a coordinate, over all uploads" : "not private: the noise can be drawn again") : null,
  ];
};

const axisOf = (values) => {
  const step = 0.05;
  let low = Math.floor(Math.min(...values) / step) * step, high = Math.ceil(Math.max(...values) / step) * step;
  if (high - low < step) { low -= step / 2; high += step / 2; }
  low = Math.max(0, low); high = Math.min(1, high);
  return { low, high, place: (value) => `${(100 * (value - low)) / (high - low)}%` };
};

const dumbbells = (view) => {
  const rows = view.institutions.map((one) => ({ ...one, gain: gainOf(one) }));
  rows.sort((a, b) => (b.gain ?? b.test ?? -9) - (a.gain ?? a.test ?? -9) || (a.name < b.name ? -1 : 1));
  const values = rows.flatMap((one) => [one.test, one.alone]).filter(known);
  if (!values.length) return el("p", { class: "quiet" }, "No institution shared its test accuracy.");
  const axis = axisOf(values), withAlone = rows.some((one) => known(one.alone));
  const track = (one) => el("div", { class: "track", "aria-hidden": "true" },
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
    withAlone ? el("td", { class: known(one.gain) ? (one.gain < 0 ? "down" : one.gain > 0 ? "up" : null) : null },
      known(one.gain) ? points(one.gain) : "–") : null);
  const ticks = el("div", { class: "track", "aria-hidden": "true" },
    [axis.low, (axis.low + axis.high) / 2, axis.high].map((value) =>
      el("span", { class: "tick", style: { left: axis.place(value) } }, `${(100 * value).toFixed(value * 1000 % 10 > 0.01 && value * 1000 % 10 < 9.99 ? 1 : 0)} %`)));
  const mean = { name: "mean", test: view.test, alone: view.alone, gain: gainOf(view) };
  return el("table", { class: "dumbbell" },
    el("caption", {}, "Test accuracy of every institution"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "institution"),
      el("th", { class: "plot" }, ticks), withAlone ? el("th", { scope: "col" }, "alone") : null,
      el("th", { scope: "col" }, "together"), withAlone ? el("th", { scope: "col" }, "points") : null)),
    el("tbody", {}, rows.map((one) => line(one, false)), line(mean, true)));
};

const otherMethods = (view) => {
  const others = view.others.filter((other) => other.method !== "local");
  if (!others.length) return null;
  const rows = [{ title: view.method_title, test: view.test, best_round: view.best_round }, ...view.others];
  return el("div", {}, el("h3", {}, "Other methods on the same data"),
    table("Mean test accuracy", [{ title: "method" }, { title: "test" }, { title: "best round" }],
      rows.map((other) => [other.title, percent(other.test), String(other.best_round)]), { class: "narrow" }));
};

sections.push((view) => {
  document.title = `${view.run}: ${headlineText(view)}`;
  byId("title").textContent = headlineText(view);
  const bad = ["failed", "gave-up", "stopped"].includes(view.status);
  const left = known(view.seconds_left) ? `, about ${duration(view.seconds_left)} left` : "";
  fill(byId("meta"), el("li", {}, el("span", { class: bad ? "chip bad" : "chip", id: "status" }, STATES[view.status])),
    el("li", {}, "run ", fullName(view.run)), el("li", {}, `method ${view.method_title}`),
    el("li", {}, plural(view.institutions.length, "institution")),
    el("li", {}, `round ${view.played} of ${view.planned}${left}`),
    el("li", {}, `${duration(view.seconds)} of rounds`), el("li", {}, `started ${when(view.started)}`));
  fill(byId("headline"),
    view.status === "running" ? el("progress", { max: view.planned, value: view.played, "aria-label": "rounds played" }) : null,
    view.reason ? el("p", { class: "bad" }, view.reason) : null,
    view.status === "stopped" ? el("p", { class: "bad" }, "The run ended without a result: fedgt resume, or fedgt run --resume, continues it.") : null,
    el("dl", { class: "figures" }, figures(view)),
    view.institutions.some((one) => known(one.alone)) ? el("p", { class: "key", "aria-hidden": "true" },
      el("span", {}, el("i"), "alone"), el("span", {}, el("i", { class: "together" }), "together")) : null,
    view.institutions.length > 25 ? scrolling("test accuracy of every institution", dumbbells(view)) : dumbbells(view),
    otherMethods(view),
    view.warnings.length ? el("div", {}, el("h3", {}, "Warnings"), el("ul", { class: "notes" },
      view.warnings.map((note) => el("li", {}, note.text, " ", el("span", { class: "quiet" }, roundsOf(note)))))) : null);
});
